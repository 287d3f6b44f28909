"""Pairs, rank intervals, tiers, and how healthy a ranking is."""

import numpy as np
import polars as pl
import pytest

from analysis.bradley_terry import win_matrix
from analysis.comparisons import cells_from_comparisons
from analysis.diagnostics import cycle_share, diagnostics
from analysis.options import Options
from analysis.ranking import Ranking, rank
from analysis.ranks import ranks, standing

from .test_ranking import NEVER_WINS, random_comparisons


def ranked(rows: list[tuple[str, str, str, bool]]) -> Ranking:
    return rank(
        cells_from_comparisons(
            pl.DataFrame(rows, schema=["task_id", "winner", "loser", "tie"], orient="row")
        ),
        Options(),
    )


def clear(tasks: int) -> list[tuple[str, str, str, bool]]:
    """a beats b on 7 of 10 tasks, both beat c on 9 of 10."""
    rows = []
    for task in range(tasks):
        rows.append((str(task), *("ab" if task % 10 < 7 else "ba"), False))
        rows += [(str(task), *(name + "c" if task % 10 else "c" + name), False) for name in "ab"]
    return rows


def test_clear_differences_give_narrow_ranks_and_tiers() -> None:
    found = standing(ranked(clear(200)))
    assert found is not None
    assert (found.rank_low.tolist(), found.rank_high.tolist()) == ([1, 2, 3], [1, 2, 3])
    assert found.tiers == (("a",), ("b",), ("c",))


def test_few_tasks_leave_the_order_open() -> None:
    found = standing(ranked(clear(30)))
    assert found.tiers == (("a", "b"), ("c",))
    assert found.rank_low.tolist()[:2] == [1, 1]
    assert found.rank_high.tolist()[:2] == [2, 2]


def test_pairs_are_adjusted_for_all_pairs() -> None:
    ranking = rank(cells_from_comparisons(random_comparisons(tasks=100, seed=8)), Options())
    pairs = standing(ranking).pairs
    assert len(pairs) == 6
    for pair in pairs:
        i, j = ranking.strategies.index(pair.strategy), ranking.strategies.index(pair.opponent)
        assert pair.difference == pytest.approx(ranking.elo[i] - ranking.elo[j])
        assert pair.difference >= 0
        contrast = np.eye(4)[i] - np.eye(4)[j]
        assert pair.se == pytest.approx(np.sqrt(contrast @ ranking.covariance @ contrast))
        assert pair.p_adjusted >= pair.p_value - 0.01


def test_tasks_needed() -> None:
    """A difference of t standard errors at T tasks needs T·((1.960 + 0.842)/t)²."""
    ranking = ranked(clear(100))
    pair = standing(ranking).pairs[0]
    ratio = pair.difference / pair.se
    assert pair.tasks_needed == np.ceil(100 * (2.8015852 / ratio) ** 2)


def test_no_rank_intervals_with_fewer_tasks_than_strategies() -> None:
    found = standing(rank(cells_from_comparisons(random_comparisons(tasks=3, seed=2)), Options()))
    assert found.rank_low is None


def test_never_winning_is_no_sure_difference() -> None:
    found = standing(ranked(NEVER_WINS))
    assert {(pair.strategy, pair.opponent) for pair in found.pairs} == {("a", "b")}


def test_ranks_share_the_better_place() -> None:
    assert ranks(np.array([1000.0, 1010.0, 1000.0])).tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([("t", *pair, False) for pair in ("ab", "bc", "ca")], 1.0),  # a perfect cycle
        (
            [("t", *pair, False) for pair in ("ab", "bc", "ac")],
            1 / 9,
        ),  # 1, 1, 1 instead of 2/3, 2/3, 4/3: 3·(1/3)²/3
        ([("t", "a", "b", False)], 0.0),
        ([("t", "a", "b", True)], None),
    ],
)
def test_cycle_share(rows: list[tuple[str, str, str, bool]], share: float | None) -> None:
    found = cycle_share(win_matrix(ranked(rows).weighed))
    assert found == (None if share is None else pytest.approx(share, abs=1e-12))


def test_diagnostics() -> None:
    rows = [(str(task), *("ab" if task < 15 else "ba"), False) for task in range(29)]
    ranking = ranked([*rows, *[(str(task), "a", "b", True) for task in range(29, 60)]])
    found = diagnostics(ranking, standing(ranking))
    assert (found["tasks"], found["decisive_tasks"], found["converged"]) == (60, 29, True)
    assert found["tie_share"] == pytest.approx(31 / 60)
    # 15 : 14; without one win the order is a tie, without two it turns; one task alone turns nothing.
    assert found["most_influential_task"]["pairs_reordered"] == 0
    assert 28 < found["effective_tasks"] < 31
    # Ties as half wins vary less than the model thinks: 29 of 60 tasks carry all the variance.
    assert found["se_ratio"] == pytest.approx(np.sqrt(29 / 60), rel=0.03)
