"""Bradley-Terry with clustered intervals against right values that others computed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from analysis.bradley_terry import ELO_PER_THETA, elo, fit, win_matrix
from analysis.comparisons import Cells, cells_from_comparisons, cells_from_outcomes, comparison_table
from analysis.errors import NotIdentifiedError, OptionError
from analysis.frames import outcomes_frame
from analysis.options import Options
from analysis.ranking import Ranking, rank
from analysis.weighting import Weighting, weigh

from .conftest import HUMANEVAL_FIVE, trials

HUMANEVAL_ELO = {
    "half": [(955.001, 8.560), (1010.176, 3.995), (1022.551, 3.657), (1018.279, 3.477), (993.994, 5.914)],
    "drop": [(732.471, 52.213), (963.434, 36.831), (1238.167, 47.650), (1135.691, 35.619), (930.236, 44.504)],
}


@pytest.fixture(scope="module")
def humaneval_cells(humaneval_outcomes: pl.DataFrame) -> Cells:
    five = humaneval_outcomes.filter(pl.col("strategy").is_in(HUMANEVAL_FIVE))
    return cells_from_outcomes(outcomes_frame(five), HUMANEVAL_FIVE)


@pytest.mark.parametrize(("ties", "weight_sum", "tasks"), [("half", 1640, 164), ("drop", 219.68, 59)])
def test_humaneval(humaneval_cells: Cells, ties: str, weight_sum: float, tasks: int) -> None:
    ranking = rank(humaneval_cells, Options(weighting=Weighting(ties=ties)))
    assert ranking.weighed.total.sum() == pytest.approx(weight_sum)
    assert ranking.weighed.n_tasks == tasks
    assert ranking.n_tasks == 164
    assert ranking.degrees == 58
    found = list(zip(ranking.elo.round(3), ranking.standard_errors.round(3), strict=True))
    assert found == HUMANEVAL_ELO[ties]


def test_humaneval_gain_of_warming(humaneval_cells: Cells) -> None:
    ranking = rank(humaneval_cells, Options(anchor=HUMANEVAL_FIVE[1]))
    assert ranking.elo[2] - 1000 == pytest.approx(12.375, abs=5e-4)
    assert ranking.standard_errors[2] == pytest.approx(3.967, abs=5e-4)
    assert ranking.standard_errors[1] == 0


def test_sum_of_weights_sets_how_strong_the_penalty_is(humaneval_cells: Cells) -> None:
    """Counting each of the 25 repeat pairs of a share would give the first row 954.996 and 732.13."""
    for ties, first, digits in (("half", 954.996, 5e-4), ("drop", 732.13, 5e-3)):
        weighed = weigh(humaneval_cells, Weighting(ties=ties))
        assert elo(fit(25 * win_matrix(weighed), 0.01).theta)[0] == pytest.approx(first, abs=digits)


def test_llmfao_maximum_likelihood(shared: Callable[[str], pl.DataFrame]) -> None:
    """Half-win ties, weight 1, no penalty: Elo as published to 1e-4."""
    cells = cells_from_comparisons(llmfao(shared))
    ranking = rank(cells, Options(weighting=Weighting(weight="comparison"), l2=0))
    assert ranking.elo - 1000 == pytest.approx(published_llmfao(shared, "bradley_terry", ranking), abs=1e-4)


def test_llmfao_with_ties_as_outcomes(shared: Callable[[str], pl.DataFrame]) -> None:
    """Newman's tie-aware scores are those of Davidson's model: Elo as published to 0.01."""
    cells = cells_from_comparisons(llmfao(shared))
    options = Options(weighting=Weighting(weight="comparison", ties="davidson"), l2=0)
    ranking = rank(cells, options)
    assert ranking.elo - 1000 == pytest.approx(published_llmfao(shared, "newman", ranking), abs=1e-2)


def llmfao(shared: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    return shared("llmfao.csv.gz").select(
        task_id=pl.col("prompt").cast(pl.String),
        winner=pl.when(pl.col("winner") == "right").then("right").otherwise("left"),
        loser=pl.when(pl.col("winner") == "right").then("left").otherwise("right"),
        tie=pl.col("winner") == "tie",
    )


def published_llmfao(shared: Callable[[str], pl.DataFrame], algorithm: str, ranking: Ranking) -> np.ndarray:
    expected = shared("llmfao_expected.csv").filter(pl.col("algorithm") == algorithm)
    strength = dict(zip(expected["item"], expected["score"], strict=True))
    published = np.log([strength[name] for name in ranking.strategies]) * ELO_PER_THETA
    return published - published.mean()


def citations(shared: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    raw = shared("citations.csv")
    columns = {"p": "player1", "q": "player2"}
    won = raw.select(winner=columns["p"], loser=columns["q"], weight="win1")
    lost = raw.select(winner=columns["q"], loser=columns["p"], weight="win2")
    return pl.concat([won, lost]).with_columns(task_id=pl.lit("all"))


def test_citations(shared: Callable[[str], pl.DataFrame]) -> None:
    """Turner & Firth (2012): estimates against Biometrika with plain standard errors, and the deviance."""
    cells = cells_from_comparisons(citations(shared))
    options = Options(
        weighting=Weighting(weight="comparison"), l2=0, anchor="Biometrika", standard_errors="plain"
    )
    ranking = rank(cells, options)
    expected = {"Comm Statist": (-2.9491, 0.10255), "JASA": (-0.4796, 0.06059), "JRSS-B": (0.2690, 0.07083)}
    for name, (theta, error) in expected.items():
        at = ranking.strategies.index(name)
        assert (ranking.elo[at] - 1000) / ELO_PER_THETA == pytest.approx(theta, abs=5e-5)
        assert ranking.standard_errors[at] / ELO_PER_THETA == pytest.approx(error, abs=5e-6)
    wins = win_matrix(ranking.weighed)
    games = wins + wins.T
    gap = ranking.fitted.theta[:, None] - ranking.fitted.theta[None, :]
    played = games > 0
    deviance = 2 * np.sum(
        (wins * (np.log(np.where(played, wins / np.where(played, games, 1), 1)) + np.log1p(np.exp(-gap))))[
            played
        ]
    )
    assert deviance == pytest.approx(4.293, abs=5e-4)


def test_statsmodels_agrees() -> None:
    """A clustered GLM of statsmodels gives the same differences and standard errors (no penalty)."""
    import statsmodels.api as sm

    table = random_comparisons(tasks=60, seed=3)
    options = Options(weighting=Weighting(weight="comparison"), l2=0, anchor="a")
    ranking = rank(cells_from_comparisons(table), options)
    names = ranking.strategies
    X = np.zeros((table.height, len(names)))
    rows = np.arange(table.height)
    X[rows, [names.index(name) for name in table["winner"]]] += 1
    X[rows, [names.index(name) for name in table["loser"]]] -= 1
    y = np.where(table["tie"].to_numpy(), 0.5, 1.0)
    glm = sm.GLM(y, X[:, 1:], family=sm.families.Binomial())
    found = glm.fit(
        cov_type="cluster",
        cov_kwds={"groups": table["task_id"].cast(pl.Int64).to_numpy(), "use_correction": False},
    )
    correction = np.sqrt(60 / 59)
    assert (ranking.elo[1:] - 1000) / ELO_PER_THETA == pytest.approx(found.params, abs=1e-6)
    assert ranking.standard_errors[1:] / ELO_PER_THETA == pytest.approx(found.bse * correction, abs=1e-6)


def random_comparisons(*, tasks: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for task in range(tasks):
        skill = dict(zip("abcd", rng.normal([0, 0.3, 0.6, 0.9], 1), strict=True))
        for first, second in ("ab", "ac", "ad", "bc", "bd", "cd"):
            gap = skill[first] - skill[second] + rng.logistic()
            winner, loser = (first, second) if gap > 0 else (second, first)
            rows.append((str(task), winner, loser, bool(abs(gap) < 0.4)))
    return pl.DataFrame(rows, schema=["task_id", "winner", "loser", "tie"], orient="row")


def test_one_pair_by_hand() -> None:
    """a beats b on 3 of 4 tasks, no penalty: θ_a - θ_b = ln 3, so 400·log10(3) = 190.85 Elo apart."""
    rows = [("1", "a", "b"), ("2", "a", "b"), ("3", "a", "b"), ("4", "b", "a")]
    cells = cells_from_comparisons(pl.DataFrame(rows, schema=["task_id", "winner", "loser"], orient="row"))
    ranking = rank(cells, Options(l2=0))
    assert ranking.elo[0] - ranking.elo[1] == pytest.approx(400 * np.log10(3))
    assert ranking.elo.mean() == pytest.approx(1000)


def test_repeats_are_compared_all_with_all() -> None:
    """a passes 1 of 2, b 1 of 3: of 6 pairings a wins 1·2, b wins 1·1, the other 3 tie."""
    rows = [("t", "a", 1, True), ("t", "a", 2, False)]
    rows += [("t", "b", 1, True), ("t", "b", 2, False), ("t", "b", 3, False)]
    cells = cells_from_outcomes(outcomes_frame(trials(rows)), ["a", "b"])
    assert (cells.win[0], cells.loss[0], cells.tie[0]) == (2, 1, 3)
    table = comparison_table(cells)
    assert table["weight"].to_list() == pytest.approx([2 / 6, 1 / 6, 3 / 6])
    assert table["winner"].to_list()[:2] == ["a", "b"]
    assert table["tie"].to_list() == [False, False, True]


def test_scores_rank_where_every_trial_has_one() -> None:
    frame = trials([("t", "a", 1, True), ("t", "b", 1, True), ("u", "a", 1, True), ("u", "b", 1, True)])
    scored = frame.with_columns(score=pl.Series([0.9, 0.7, 0.1, None]))
    cells = cells_from_outcomes(outcomes_frame(scored), ["a", "b"])
    assert cells.win.tolist() == [1, 0]
    assert cells.tie.tolist() == [0, 1]


def test_comparison_table_reads_back(humaneval_cells: Cells) -> None:
    again = cells_from_comparisons(comparison_table(humaneval_cells), HUMANEVAL_FIVE)
    first, second = (rank(cells, Options()) for cells in (humaneval_cells, again))
    assert first.elo == pytest.approx(second.elo, abs=1e-9)
    assert first.standard_errors == pytest.approx(second.standard_errors, abs=1e-9)


def test_weights_of_tasks() -> None:
    """A task of weight 3 counts like three tasks of weight 1."""
    rows = [("1", "a", 1, True), ("1", "b", 1, False), ("2", "a", 1, False), ("2", "b", 1, True)]
    heavy = trials(rows).with_columns(task_weight=pl.when(pl.col("task_id") == "1").then(3.0).otherwise(1.0))
    ranking = rank(cells_from_outcomes(outcomes_frame(heavy), ["a", "b"]), Options(l2=0))
    assert ranking.elo[0] - ranking.elo[1] == pytest.approx(400 * np.log10(3))


def test_ranking_weight_and_clip() -> None:
    """Three items ranked once: 3 comparisons of weight 1/2; clipped to 1 they sum to 1."""
    rows = [("t", "a", "b", 3), ("t", "a", "c", 3), ("t", "b", "c", 3)]
    cells = cells_from_comparisons(
        pl.DataFrame(rows, schema=["task_id", "winner", "loser", "items"], orient="row")
    )
    assert weigh(cells, Weighting(weight="ranking")).total.tolist() == [0.5, 0.5, 0.5]
    assert weigh(cells, Weighting(weight="comparison", clip=1)).total.tolist() == pytest.approx([1 / 3] * 3)


def test_jackknife_below_fifty_tasks() -> None:
    table = random_comparisons(tasks=60, seed=5)
    whole = rank(cells_from_comparisons(table), Options())
    few = table.filter(pl.col("task_id").cast(pl.Int64) < 40)
    ranking = rank(cells_from_comparisons(few), Options())
    left_out = [
        rank(cells_from_comparisons(few.filter(pl.col("task_id") != t)), Options()).elo
        for t in few["task_id"].unique()
    ]
    moved = np.array(left_out) - ranking.elo
    # Dropping a task also drops its 6 shares from the sum of weights, so the penalty weighs 1/40 more.
    assert ranking.standard_errors == pytest.approx(np.sqrt(39 / 40 * (moved**2).sum(axis=0)), rel=1e-6)
    assert whole.n_tasks == 60


def _rank(rows: list[tuple[str, str, str, bool]], options: Options | None = None) -> Ranking:
    table = pl.DataFrame(rows, schema=["task_id", "winner", "loser", "tie"], orient="row")
    return rank(cells_from_comparisons(table), options or Options())


NEVER_WINS = (
    [(str(i), "a", "b", False) for i in range(6)]
    + [(str(i), "b", "a", False) for i in range(6, 10)]
    + [(str(i), "a", "c", False) for i in range(10)]
    + [(str(i), "b", "c", False) for i in range(10)]
)


def test_a_strategy_that_never_wins() -> None:
    ranking = _rank(NEVER_WINS)
    assert ranking.open_below.tolist() == [False, False, True]
    assert not ranking.open_above.any()
    low, high = ranking.intervals()
    assert low[2] == -np.inf
    assert ranking.elo[2] < high[2] < ranking.elo[1]
    with pytest.raises(NotIdentifiedError, match="never won"):
        _rank(NEVER_WINS, Options(l2=0))


def test_perfect_cycle_is_all_equal() -> None:
    ranking = _rank([(str(i), *pair, False) for i in range(9) for pair in ("ab", "bc", "ca")])
    assert ranking.elo == pytest.approx([1000, 1000, 1000])


def test_all_ties() -> None:
    rows = [(str(i), "a", "b", True) for i in range(9)]
    ranking = _rank(rows)
    assert ranking.elo.tolist() == [1000, 1000]
    assert ranking.standard_errors is None
    with pytest.raises(NotIdentifiedError, match="All comparisons are ties"):
        _rank(rows, Options(weighting=Weighting(ties="drop")))


def test_one_task_has_no_interval() -> None:
    ranking = _rank([("t", "a", "b", False), ("t", "b", "a", False), ("t", "a", "b", False)])
    assert ranking.elo[0] > ranking.elo[1]
    assert ranking.standard_errors is None
    assert np.isnan(ranking.intervals()[0]).all()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("1", "a", "b", False), ("1", "c", "d", False)], r"2 groups .* \[a, b\]; \[c, d\]"),
        ([], "only 0 strategy"),
    ],
)
def test_refusals(rows: list[tuple[str, str, str, bool]], message: str) -> None:
    with pytest.raises(NotIdentifiedError, match=message):
        table = pl.DataFrame(
            rows,
            schema={"task_id": pl.String, "winner": pl.String, "loser": pl.String, "tie": pl.Boolean},
            orient="row",
        )
        rank(cells_from_comparisons(table), Options())


def test_one_strategy() -> None:
    cells = cells_from_outcomes(outcomes_frame(trials([("t", "a", 1, True)])), ["a"])
    with pytest.raises(NotIdentifiedError, match="only 1 strategy"):
        rank(cells, Options())


def test_strategy_without_results_is_left_out() -> None:
    cells = cells_from_outcomes(
        outcomes_frame(trials([("t", "a", 1, True), ("t", "b", 1, False), ("t", "c", 1, None)])),
        ["a", "b", "c"],
    )
    ranking = rank(cells, Options())
    assert ranking.left_out == ("c",)
    assert ranking.strategies == ("a", "b")


def test_order_and_names_do_not_matter() -> None:
    table = random_comparisons(tasks=50, seed=1)
    odd = {"a": 'x, "y"', "b": "模型", "c": "🤖", "d": "=cmd"}
    renamed = table.sample(fraction=1, shuffle=True, seed=2).with_columns(
        pl.col("winner", "loser").replace(odd)
    )
    first, second = (rank(cells_from_comparisons(t), Options()) for t in (table, renamed))
    mine = dict(zip(first.strategies, first.elo, strict=True))
    theirs = dict(zip(second.strategies, second.elo, strict=True))
    assert {odd[name]: value for name, value in mine.items()} == pytest.approx(theirs, abs=1e-9)


def test_duplicated_comparisons_change_nothing_but_their_share() -> None:
    table = random_comparisons(tasks=50, seed=1)
    doubled = pl.concat([table, table])
    first, second = (rank(cells_from_comparisons(t), Options()) for t in (table, doubled))
    assert first.elo == pytest.approx(second.elo, abs=1e-9)
    assert first.standard_errors == pytest.approx(second.standard_errors, abs=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Weighting(weight="x"), "weight is 'x'"),
        (lambda: Weighting(ties="x"), "ties is 'x'"),
        (lambda: Weighting(clip=5), "clip has nothing to do"),
        (lambda: Options(l2=-1), "l2 is -1"),
        (lambda: Options(level=95), "level is 95"),
        (
            lambda: rank(cells_from_comparisons(random_comparisons(tasks=3, seed=1)), Options(anchor="z")),
            "anchor 'z'",
        ),
    ],
)
def test_wrong_options(make: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def test_options_can_be_varied() -> None:
    assert replace(Options(), threshold=5.0).threshold == 5.0
