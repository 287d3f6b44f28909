"""Data that break other rankings: each case with the right result, or the refusal."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from analysis.comparisons import cells_from_comparisons
from analysis.errors import AnalysisError
from analysis.options import Options
from analysis.ranking import Ranking, rank
from analysis.weighting import Weighting

from .test_ranking import NEVER_WINS, random_comparisons

Row = tuple[str, str, str, bool]
ABOVE = 400 * np.log10(2)
"""Elo between two strategies of which one wins 2 of 3: 120.4."""


def over(tasks: int, *pairs: str, tie: bool = False) -> list[Row]:
    return [(f"t{task}", pair[0], pair[1], tie) for task in range(tasks) for pair in pairs]


TWO_OF_THREE = [(f"t{task}", *("ab" if task % 3 else "ba"), False) for task in range(60)]
ODD = {"a": 'x, "y"\n', "b": "=模型 🤖"}
NAMED = [(task, ODD[winner], ODD[loser], tie) for task, winner, loser, tie in TWO_OF_THREE]


def gap(expected: float) -> Callable[[Ranking], None]:
    def check(ranking: Ranking) -> None:
        assert abs(ranking.elo[0] - ranking.elo[1]) == pytest.approx(expected, abs=0.1)

    return check


def equal(ranking: Ranking) -> None:
    assert ranking.elo == pytest.approx(np.full(len(ranking.elo), 1000.0), abs=1e-9)


def unsure(ranking: Ranking) -> None:
    assert ranking.standard_errors is None


def both(*checks: Callable[[Ranking], None]) -> Callable[[Ranking], None]:
    return lambda ranking: [check(ranking) for check in checks] and None


def c_is_open_below(ranking: Ranking) -> None:
    """30 comparisons in which C never wins: other libraries print -1386 to 480 for C, most without a warning."""
    assert ranking.open_below.tolist() == [False, False, True]
    low, high = ranking.intervals()
    assert low[2] == -np.inf
    assert high[2] < 1000
    assert ranking.elo[0] > ranking.elo[1] > ranking.elo[2]


def doubled_is_the_same(ranking: Ranking) -> None:
    once = rank(cells_from_comparisons(random_comparisons(tasks=60, seed=9)), Options())
    assert ranking.elo == pytest.approx(once.elo, abs=1e-9)


CASES: dict[str, tuple[list[Row], Options, Callable[[Ranking], None] | str]] = {
    "C never wins": (NEVER_WINS, Options(), c_is_open_below),
    "C never wins, no penalty": (NEVER_WINS, Options(l2=0), "maximum likelihood is infinite"),
    "two islands": (over(20, "ab", "ba", "cd", "dc"), Options(), r"2 groups .*\[a, b\]; \[c, d\]"),
    "a perfect cycle": (over(60, "ab", "bc", "ca"), Options(), equal),
    "all ties, half wins": (over(60, "ab", tie=True), Options(), both(equal, unsure)),
    "all ties, modelled": (
        over(60, "ab", tie=True),
        Options(weighting=Weighting(ties="davidson")),
        both(equal, unsure),
    ),
    "all ties, dropped": (
        over(60, "ab", tie=True),
        Options(weighting=Weighting(ties="drop")),
        "All comparisons are ties",
    ),
    "one task": (over(1, "ab", "ab", "ba"), Options(l2=0), both(gap(ABOVE), unsure)),
    "one strategy": (over(5, "aa"), Options(), "'a' is compared with itself"),
    "nothing": ([], Options(), "only 0 strategy has results"),
    "a duplicated row": (TWO_OF_THREE + TWO_OF_THREE[:1], Options(l2=0), gap(ABOVE)),
    "every row doubled": (
        2 * list(random_comparisons(tasks=60, seed=9).iter_rows()),
        Options(),
        doubled_is_the_same,
    ),
    "names with commas, quotes, Chinese, emoji": (NAMED, Options(l2=0), gap(ABOVE)),
    "rows in another order": (TWO_OF_THREE[::-1], Options(l2=0), gap(ABOVE)),
    "another name for each task": (
        [("x" + t[::-1], *row) for t, *row in TWO_OF_THREE],
        Options(l2=0),
        gap(ABOVE),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_awkward(case: str) -> None:
    rows, options, result = CASES[case]
    schema = {"task_id": pl.String, "winner": pl.String, "loser": pl.String, "tie": pl.Boolean}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    if isinstance(result, str):
        with pytest.raises(AnalysisError, match=result):
            rank(cells_from_comparisons(table), options)
    else:
        result(rank(cells_from_comparisons(table), options))
