"""The arena table: what a run's tasks cost, against a reference that comes from another task set."""

from analysis.report.columns import COLUMNS
from analysis.report.scaling_table import SIMULATED
from analysis.safetext import markdown_cell
from analysis.study import Study

_COLUMNS = (
    "strategy",
    "tasks",
    "trials",
    "confirmed_successes",
    "median_tokens",
    "median_cost_usd",
    "reference_cost_usd",
    "tasks_above_reference",
    "unknown_cost",
)


def arena_markdown(study: Study, *, simulated: bool = False) -> str:
    """`arena_table.md`: `cost_summary.csv` for people, the row over all strategies last."""
    lines = ["# This run against the reference", ""]
    if simulated:
        lines += [f"> **{SIMULATED}**", ""]
    lines += [
        _line(tuple(COLUMNS[name].title for name in _COLUMNS)),
        "|---" + "|---:" * (len(_COLUMNS) - 1) + "|",
    ]
    for row in study.tables["cost_summary"].iter_rows(named=True):
        lines.append(_line(tuple(COLUMNS[name].text(row[name]) for name in _COLUMNS)))
    lines += [
        "",
        "Each strategy's work on a task counts as a task of its own in the row over all. A task's tokens and cost are",
        "the mean over its repeats. The reference comes from another task set; it is something to compare with, no",
        "target.",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(markdown_cell, cells))} |"
