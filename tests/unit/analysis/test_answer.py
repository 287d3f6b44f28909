"""The answer's first sentence claims no more than the steps between strategies show."""

from dataclasses import replace

import polars as pl
import pytest

from analysis.options import Options
from analysis.report.answer import answer
from analysis.report.scaling_table import ScalingRow, scaling_rows
from analysis.study import Study, study

from .conftest import trials

NO_STEP = "no step to a strategy with more tokens buys 2 Elo per 1,000 tokens."
LAST = "it is the last strategy whose extra tokens still buy 2 Elo per 1,000 tokens."
OPEN, WORTH, DIMINISHING, NOT_WORTH = "cannot tell yet", "worth it", "diminishing", "not worth it"


@pytest.fixture(scope="module")
def found() -> Study:
    """Three strategies; what is said of them is set by each case."""
    outcomes = trials([(f"t{t}", s, 1, (t + n) % 3 > 0) for t in range(6) for n, s in enumerate("abc")])
    calls = outcomes.select("task_id", "strategy", "repeat").with_columns(
        input_tokens=pl.col("strategy").replace_strict({"a": 100, "b": 200, "c": 300}), output_tokens=1
    )
    return study(outcomes=outcomes, calls=calls, options=Options(bootstrap=10, threshold=2))


@pytest.mark.parametrize(
    ("steps", "best", "said"),
    [
        ((OPEN, OPEN), "a", f"Not settled; by the best estimate use a: {NO_STEP}"),
        ((OPEN, OPEN), "b", f"Not settled; by the best estimate use b: {LAST}"),
        ((NOT_WORTH, OPEN), "a", f"Use a: by the best estimate {NO_STEP}"),
        ((WORTH, OPEN), "b", f"Use b: by the best estimate {LAST}"),
        ((OPEN, NOT_WORTH), "b", f"Use b: by the best estimate {LAST}"),
        # From a over b to c is worth it only together, which no single step shows.
        ((NOT_WORTH, WORTH), "c", f"Use c: by the best estimate {LAST}"),
        ((NOT_WORTH, DIMINISHING), "a", f"Use a: {NO_STEP}"),
        ((WORTH, NOT_WORTH), "b", f"Use b: {LAST}"),
    ],
)
def test_the_headline(found: Study, steps: tuple[str, str], best: str, said: str) -> None:
    rows = scaling_rows(found)
    assert [row.strategy for row in rows] == list("abc")
    told = [_told(row, step, best) for row, step in zip(rows, (None, *steps), strict=True)]
    assert answer(found, told)[0] == said


def _told(row: ScalingRow, step: str | None, best: str) -> ScalingRow:
    return replace(row, assessment=step, recommended=row.strategy == best)
