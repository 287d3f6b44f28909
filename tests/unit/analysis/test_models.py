"""Davidson, two stages, resampling: other models and weights of the same comparisons."""

import numpy as np
import polars as pl
import pytest

from analysis import davidson
from analysis.bootstrap import bootstrap_weights, weighted_means
from analysis.bradley_terry import expected, fit
from analysis.comparisons import cells_from_comparisons
from analysis.decision_tables import estimators_table
from analysis.options import Options
from analysis.ranking import rank
from analysis.resampling import refit
from analysis.two_stage import two_stage
from analysis.weighting import Weighting, weigh

from .test_ranking import random_comparisons


def test_davidson_by_hand() -> None:
    """6 wins, 2 losses, 4 ties: the three chances are fitted exactly, so e^θ-gap = 3 and ν = 4/√(6·2)."""
    wins, ties = np.array([[0.0, 6.0], [2.0, 0.0]]), np.array([[0.0, 4.0], [4.0, 0.0]])
    fitted = davidson.fit(wins, ties, 0.0)
    assert fitted.theta[0] - fitted.theta[1] == pytest.approx(np.log(3))
    assert fitted.tie_strength == pytest.approx(4 / np.sqrt(12))


def test_davidson_without_ties_is_bradley_terry() -> None:
    wins = np.array([[0.0, 6.0, 3.0], [2.0, 0.0, 5.0], [1.0, 4.0, 0.0]])
    assert davidson.fit(wins, 0 * wins, 0.01).theta == pytest.approx(fit(wins, 0.01).theta, abs=1e-6)


def test_davidson_scores_sum_to_the_penalty() -> None:
    cells = weigh(cells_from_comparisons(random_comparisons(tasks=30, seed=2)), Weighting(ties="davidson"))
    ranking = rank(
        cells_from_comparisons(random_comparisons(tasks=30, seed=2)),
        Options(weighting=Weighting(ties="davidson")),
    )
    scores = davidson.task_scores(cells, ranking.fitted).sum(axis=0)
    assert scores[:-1] == pytest.approx(2 * 0.01 * ranking.fitted.theta, abs=1e-6)
    assert scores[-1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("ties", ["half", "davidson", "drop"])
def test_refit_with_ones_is_the_fit(ties: str) -> None:
    options = Options(weighting=Weighting(ties=ties))
    ranking = rank(cells_from_comparisons(random_comparisons(tasks=60, seed=4)), options)
    again = refit(ranking.weighed, np.ones((2, 60)), l2=0.01, ties=ties)
    assert again == pytest.approx(np.tile(ranking.fitted.theta, (2, 1)), abs=1e-7)


@pytest.mark.parametrize("ties", ["half", "davidson", "drop"])
def test_sandwich_bootstrap_and_jackknife_agree(ties: str) -> None:
    """Three ways to the same standard errors: within 15 % of each other at 60 tasks."""
    options = Options(weighting=Weighting(ties=ties))
    ranking = rank(cells_from_comparisons(random_comparisons(tasks=60, seed=4)), options)
    drawn = refit(ranking.weighed, bootstrap_weights(60, 1000, seed=1), l2=0.01, ties=ties)
    bootstrap = drawn.std(axis=0) * 400 / np.log(10)
    left_out = refit(ranking.weighed, 1 - np.eye(60), l2=0.01, ties=ties) - ranking.fitted.theta
    jackknife = np.sqrt(59 / 60 * (left_out**2).sum(axis=0)) * 400 / np.log(10)
    assert bootstrap == pytest.approx(ranking.standard_errors, rel=0.15)
    assert jackknife == pytest.approx(ranking.standard_errors, rel=0.15)


def test_two_stage_recovers_abilities() -> None:
    """Win shares that are exactly those of θ = (-1, 0, 1) on every task come back within 0.02."""
    theta = np.array([-1.0, 0.0, 1.0])
    share = expected(theta)
    rows = [
        (str(task), "abc"[i], "abc"[j], share[i, j])
        for task in range(3)
        for i in range(3)
        for j in range(3)
        if i != j
    ]
    table = pl.DataFrame(rows, schema=["task_id", "winner", "loser", "weight"], orient="row")
    assert two_stage(weigh(cells_from_comparisons(table), Weighting())) == pytest.approx(theta, abs=0.02)


def test_estimators_agree_where_nothing_differs() -> None:
    ranking = rank(cells_from_comparisons(random_comparisons(tasks=200, seed=4)), Options())
    table = estimators_table(ranking)
    assert table["task_equal"].to_list() == pytest.approx(sorted(ranking.elo, reverse=True))
    assert table["pooled"].to_list() == pytest.approx(table["task_equal"].to_list())
    for name in ("two_stage", "davidson", "ties_dropped"):
        assert np.corrcoef(table[name], table["task_equal"])[0, 1] > 0.99


def test_bootstrap_draws_as_many_tasks_as_there_are() -> None:
    weights = bootstrap_weights(7, 5, seed=3)
    assert weights.sum(axis=1).tolist() == [7] * 5
    assert np.array_equal(weights, bootstrap_weights(7, 5, seed=3))
    assert bootstrap_weights(0, 5, seed=3).shape == (5, 0)


def test_weighted_means_leave_out_what_is_unknown() -> None:
    """Weights 1, 3: (2 + 3·4) / 4 = 3.5; with 4 unknown, 2; with all unknown, unknown."""
    values = np.array([[2.0, 2.0, np.nan], [4.0, np.nan, np.nan]])
    means = weighted_means(values, np.array([[1.0, 3.0]]))[0]
    assert means[:2].tolist() == [3.5, 2.0]
    assert np.isnan(means[2])
