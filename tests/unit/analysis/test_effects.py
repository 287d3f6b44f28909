"""Strategy-by-task effects: what was put in comes back, and what cannot be told is refused."""

import numpy as np
import polars as pl
import pytest

from analysis.effects import ALL, hierarchical_table
from analysis.errors import NotIdentifiedError
from analysis.frames import outcomes_frame
from analysis.hierarchical import fit_hierarchical, population_averaged
from analysis.likelihoods import Likelihood, Outcomes, Rankings, Verdicts
from analysis.options import Options

from .conftest import trials

MU = np.array([-0.8, -0.2, 0.3, 0.7])
FIRST, SECOND = np.triu_indices(4, 1)


def verdicts(units: int, sd: float, rng: np.random.Generator) -> Likelihood:
    theta = MU + sd * rng.standard_normal((units, 4))
    wins = rng.binomial(3, 1 / (1 + np.exp(theta[:, SECOND] - theta[:, FIRST]))).astype(float)
    return Verdicts(strategies=4, first=FIRST, second=SECOND, wins=wins, count=np.full_like(wins, 3))


def rankings(units: int, sd: float, rng: np.random.Generator) -> Likelihood:
    theta = np.repeat(MU + sd * rng.standard_normal((units, 4)), 4, axis=0)
    order = np.argsort(-(theta + rng.gumbel(size=theta.shape)), axis=1)
    return Rankings(units=units, strategies=4, unit=np.repeat(np.arange(units), 4), order=order)


def outcomes(units: int, sd: float, rng: np.random.Generator) -> Likelihood:
    theta = 0.5 + MU + rng.standard_normal((units, 1)) + sd * rng.standard_normal((units, 4))
    right = rng.binomial(6, 1 / (1 + np.exp(-theta))).astype(float)
    return Outcomes(successes=right, trials=np.full_like(right, 6))


@pytest.mark.parametrize("make", [verdicts, rankings, outcomes])
def test_derivatives(make: object) -> None:
    """Gradient and information against differences of the density and of the gradient."""
    rng = np.random.default_rng(0)
    likelihood, theta, step = make(3, 0.5, rng), rng.standard_normal((3, 4)), 1e-5
    gradient, information = likelihood.derivatives(theta)
    at_draw = likelihood.log_density(theta[:, None], 0)[1][:, 0]
    assert at_draw == pytest.approx(gradient, abs=1e-12)
    for s in range(4):
        moved = step * np.eye(4)[s]
        up, down = (likelihood.log_density((theta + sign * moved)[:, None], 0)[0][:, 0] for sign in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx(gradient[:, s], abs=1e-6)
        up, down = (likelihood.derivatives(theta + sign * moved)[0] for sign in (1, -1))
        assert (down - up) / (2 * step) == pytest.approx(information[:, :, s], abs=1e-6)


@pytest.mark.parametrize("make", [verdicts, rankings, outcomes])
def test_effects_come_back(make: object) -> None:
    fitted = fit_hierarchical(make(300, 0.8, np.random.default_rng(5)))
    assert fitted.converged
    assert fitted.sigma_low < 0.8 < fitted.sigma_high
    assert fitted.sigma == pytest.approx(0.8, abs=0.12)
    assert fitted.mu == pytest.approx(MU - MU.mean(), abs=0.15)
    assert np.abs(fitted.mu - (MU - MU.mean())).max() < 3.5 * fitted.mu_se.max()
    if make is outcomes:
        assert fitted.difficulty_sd == pytest.approx(1, abs=0.2)
        assert fitted.level == pytest.approx(0.5 + MU.mean(), abs=0.25)


@pytest.mark.parametrize("make", [verdicts, rankings, outcomes])
def test_no_effects_are_none(make: object) -> None:
    fitted = fit_hierarchical(make(300, 0.0, np.random.default_rng(1)))
    assert fitted.sigma_low == 0
    assert fitted.sigma < 0.25


def test_unlike_numbers_of_ranked_strategies() -> None:
    """A ranking of two is a verdict on one pair: the same likelihood."""
    rng = np.random.default_rng(2)
    theta = rng.standard_normal((2, 5, 3))
    order = np.array([[2, 0, -1], [1, 2, -1]])
    ranked = Rankings(units=2, strategies=3, unit=np.array([0, 1]), order=order)
    chance = 1 / (1 + np.exp(-np.stack([theta[0, :, 2] - theta[0, :, 0], theta[1, :, 1] - theta[1, :, 2]])))
    assert ranked.log_density(theta, 0)[0] == pytest.approx(np.log(chance))


def test_population_averages_are_less_extreme() -> None:
    mu = np.array([-1.0, 0.0, 1.0])
    assert population_averaged(mu, np.zeros((3, 3)), level=None) == pytest.approx(mu, abs=1e-6)
    blurred = population_averaged(mu, np.full((3, 3), 1.5), level=None)
    assert 0.5 < blurred[2] < 0.9


def repeated(repeats: int, *, category: str | None = None) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    rows = [
        (f"t{task}", name, repeat, bool(rng.random() < chance))
        for task in range(30)
        for name, chance in (("a", 0.4), ("b", 0.7))
        for repeat in range(repeats)
    ]
    frame = trials(rows)
    if category is not None:
        frame = frame.with_columns(
            category=pl.lit("c") + (pl.col("task_id").str.slice(1).cast(pl.Int64) % 6).cast(pl.String)
        )
    return outcomes_frame(frame)


def table(
    outcome: pl.DataFrame,
    *,
    comparisons: pl.DataFrame | None = None,
    rankings: pl.DataFrame | None = None,
    group: str = "task",
) -> pl.DataFrame:
    return hierarchical_table(outcome, comparisons, rankings, ["a", "b", "never"], Options(group=group))


def test_table_by_task_and_by_category() -> None:
    by_task = table(repeated(3))
    assert by_task.filter(pl.col("unit") == ALL)["strategy"].to_list() == ["a", "b"]
    assert by_task.height == 2 + 30 * 2
    means = by_task.filter(pl.col("unit") == ALL)
    assert means["elo_conditional"].mean() == pytest.approx(1000)
    assert means["elo_population"][1] > 1000
    by_category = table(repeated(1, category="yes"), group="category")
    assert by_category.height == 2 + 6 * 2


def verdict_rows(**more: object) -> pl.DataFrame:
    rows = [(f"t{task}", *("ab" if (task + n) % 3 else "ba")) for task in range(30) for n in range(3)]
    return pl.DataFrame(rows, schema=["task_id", "winner", "loser"], orient="row").with_columns(**more)


def test_verdicts_and_rankings() -> None:
    assert table(repeated(1), comparisons=verdict_rows()).height == 62
    ranked = pl.DataFrame(
        [
            (f"t{t}", r, s, k)
            for t in range(30)
            for r in range(3)
            for k, s in enumerate("ab" if (t + r) % 3 else "ba")
        ],
        schema=["task_id", "repeat", "strategy", "rank"],
        orient="row",
    )
    assert table(repeated(1), rankings=ranked).height == 62
    with pytest.raises(NotIdentifiedError, match="with one ranking per unit"):
        table(repeated(1), rankings=ranked.filter(pl.col("repeat") == 0))
    with pytest.raises(NotIdentifiedError, match="some rankings have ties"):
        table(repeated(1), rankings=ranked.with_columns(rank=1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: table(repeated(1)), "with one outcome per unit and strategy.*use --group category"),
        (lambda: table(repeated(1), group="category"), "no task has a category"),
        (
            lambda: table(repeated(3).filter(pl.col("task_id").is_in(["t1", "t2"]))),
            "2 task units are too few",
        ),
        (lambda: table(repeated(1), comparisons=verdict_rows(items=pl.lit(3.0))), "Give --rankings"),
        (
            lambda: table(repeated(1), comparisons=verdict_rows(tie=pl.lit(value=True))),
            "some verdicts are ties",
        ),
        (
            lambda: table(repeated(1), comparisons=verdict_rows().unique("task_id")),
            "with one verdict per unit",
        ),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(NotIdentifiedError, match=message):
        make()


def test_certain_outcomes_have_no_finite_effects() -> None:
    """Every repeat of a trial comes out the same, but tasks disagree: σ would be infinite."""
    rng = np.random.default_rng(0)
    rows = []
    for task in range(40):
        right = rng.random(2) < 0.5
        rows += [
            (f"t{task}", name, repeat, bool(ok))
            for name, ok in zip("ab", right, strict=True)
            for repeat in range(20)
        ]
    with pytest.raises(NotIdentifiedError, match="no finite size"):
        table(outcomes_frame(trials(rows)))
