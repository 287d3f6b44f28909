"""The charts of a report, in its order. Each is drawn from a result table, never from the trials: its size does not
grow with the run, and its numbers are those of the CSV file.
"""

from collections.abc import Callable, Sequence

from analysis.report.cost_charts import cost_distribution, split_chart, token_buckets
from analysis.report.drawing import BLUE, GREEN, GREY, ORANGE, RED, VIOLET, Chart
from analysis.report.heat_maps import categories, judge_bias, win_shares
from analysis.report.point_charts import cost_success, elo_tokens
from analysis.study import Study

DRAWN: Sequence[Callable[[Study], Chart | None]] = (
    elo_tokens,
    cost_success,
    token_buckets,
    cost_distribution,
    split_chart(
        "outcome",
        "Tokens spent on success and on failure",
        {"success": GREEN, "failure": RED, "no verdict": GREY, "no answer": ORANGE},
    ),
    split_chart("try", "First try against retries", {"first": BLUE, "rerun": ORANGE, "waste": RED}),
    split_chart(
        "use",
        "Where the tokens go",
        {"prompt": BLUE, "context": VIOLET, "output": GREEN, "retries": ORANGE, "judging": GREY},
    ),
    categories,
    win_shares,
    judge_bias,
)


def charts(study: Study) -> tuple[Chart, ...]:
    """All charts that the study has data for, in the order of the report."""
    made = (draw(study) for draw in DRAWN)
    return tuple(chart for chart in made if chart is not None)
