"""How often the intervals hold the truth: simulation study behind `docs/statistics.md`.

    python benchmarks/coverage.py [--replications 2000] [--only intervals|ranks|hierarchical]

The true value is the Elo that the same estimator reaches with endless tasks of the same kind.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from analysis.bradley_terry import elo
from analysis.comparisons import Cells
from analysis.hierarchical import fit_hierarchical
from analysis.intervals import t_quantile
from analysis.likelihoods import Likelihood, Outcomes, Verdicts
from analysis.options import Options
from analysis.ranking import fit_cells, rank
from analysis.ranks import standing
from analysis.weighting import Weighting, weigh

Floats = NDArray[np.float64]
ABILITIES = np.array([-1.0, -0.4, 0.0, 0.4, 1.0])
FIRST, SECOND = np.triu_indices(len(ABILITIES), 1)
Make = Callable[[int, np.random.Generator], Cells]


def cells(win: Floats, loss: Floats, tie: Floats) -> Cells:
    """Cells from (T, P) counts per task and pair."""
    tasks = len(win)
    return Cells(
        tasks=tuple(map(str, range(tasks))),
        strategies=tuple(map(str, range(len(ABILITIES)))),
        task_weight=np.ones(tasks),
        task=np.repeat(np.arange(tasks), len(FIRST)),
        first=np.tile(FIRST, tasks),
        second=np.tile(SECOND, tasks),
        win=win.ravel().astype(float),
        loss=loss.ravel().astype(float),
        tie=tie.ravel().astype(float),
        items=np.full(win.size, 2.0),
    )


def independent_pairs(tasks: int, rng: np.random.Generator) -> Cells:
    """One verdict on each pair of each task, independent of all others."""
    chance = 1 / (1 + np.exp(ABILITIES[SECOND] - ABILITIES[FIRST]))
    win = rng.random((tasks, len(FIRST))) < chance
    return cells(win, ~win, np.zeros_like(win))


def single_rankings(tasks: int, rng: np.random.Generator) -> Cells:
    """One ranking of all strategies per task (Plackett-Luce)."""
    score = ABILITIES + rng.gumbel(size=(tasks, len(ABILITIES)))
    win = score[:, FIRST] > score[:, SECOND]
    return cells(win, ~win, np.zeros_like(win))


def nearly_equal(tasks: int, rng: np.random.Generator) -> Cells:
    """Rankings whose true order can hardly be seen: the hardest case for rank intervals."""
    score = 0.01 * ABILITIES + rng.gumbel(size=(tasks, len(ABILITIES)))
    win = score[:, FIRST] > score[:, SECOND]
    return cells(win, ~win, np.zeros_like(win))


def right_or_wrong(repeats: int, effect_sd: float, scale: float = 1.0) -> Make:
    """Right or wrong, tasks of differing difficulty, strategy-by-task effects of the given SD."""

    def make(tasks: int, rng: np.random.Generator) -> Cells:
        effect = effect_sd * rng.standard_normal((tasks, len(ABILITIES)))
        logit = scale * ABILITIES + 1.5 * rng.standard_normal((tasks, 1)) + effect
        right = rng.binomial(repeats, 1 / (1 + np.exp(-logit))).astype(float)
        win = right[:, FIRST] * (repeats - right[:, SECOND])
        loss = right[:, SECOND] * (repeats - right[:, FIRST])
        return cells(win, loss, repeats**2 - win - loss)

    return make


@dataclass(frozen=True)
class Scenario:
    """A kind of data with the estimator that it is analysed with."""

    name: str
    make: Make
    weighting: Weighting = field(default_factory=Weighting)

    def truth(self) -> Floats:
        """Elo from 400,000 tasks."""
        rng = np.random.default_rng(123)
        many = weigh(self.make(400_000, rng), self.weighting)
        return elo(fit_cells(many, Options(weighting=self.weighting, l2=1e-9)).theta)


SCENARIOS = [
    Scenario("independent pairs", independent_pairs),
    Scenario("single rankings", single_rankings),
    Scenario("right or wrong, half-win ties", right_or_wrong(1, 0.0)),
    Scenario("5 repeats, effects SD 0, half-win ties", right_or_wrong(5, 0.0)),
    Scenario("5 repeats, effects SD 1, half-win ties", right_or_wrong(5, 1.0)),
    Scenario("right or wrong, ties dropped", right_or_wrong(1, 0.0), Weighting(ties="drop")),
    Scenario("5 repeats, effects SD 1, ties dropped", right_or_wrong(5, 1.0), Weighting(ties="drop")),
    Scenario("right or wrong, Davidson", right_or_wrong(1, 0.0), Weighting(ties="davidson")),
    Scenario("5 repeats, effects SD 1, Davidson", right_or_wrong(5, 1.0), Weighting(ties="davidson")),
]


def interval_coverage(scenario: Scenario, tasks: int, replications: int) -> tuple[Floats, Floats, Floats]:
    """Shares of replications whose 95 % interval holds the truth: of Elo, of differences, of the naive interval."""
    truth = scenario.truth()
    gap = truth[FIRST] - truth[SECOND]
    options = Options(weighting=scenario.weighting)
    held, held_gap, held_plain = (np.zeros(n) for n in (len(truth), len(gap), len(truth)))
    for rng in generators(replications):
        ranking = rank(scenario.make(tasks, rng), options)
        low, high = ranking.intervals()
        held += (low <= truth) & (truth <= high)
        covariance = ranking.covariance
        spread = np.sqrt(
            np.maximum(
                0, covariance[FIRST, FIRST] + covariance[SECOND, SECOND] - 2 * covariance[FIRST, SECOND]
            )
        )
        reach = t_quantile(0.95, ranking.degrees) * spread
        held_gap += np.abs(ranking.elo[FIRST] - ranking.elo[SECOND] - gap) <= reach
        plain = replace(ranking, options=replace(options, standard_errors="plain"))
        held_plain += np.abs(ranking.elo - truth) <= 1.96 * plain.standard_errors
    return held / replications, held_gap / replications, held_plain / replications


def rank_coverage(scenario: Scenario, tasks: int, replications: int) -> float:
    """Share of replications in which every strategy's rank interval holds its true rank."""
    # In every scenario the abilities rise with the strategy's number.
    truth = np.arange(len(ABILITIES), 0, -1)
    held = 0
    for rng in generators(replications):
        found = standing(rank(scenario.make(tasks, rng), Options(weighting=scenario.weighting)))
        held += bool(np.all((found.rank_low <= truth) & (truth <= found.rank_high)))
    return held / replications


def generators(count: int) -> Iterator[np.random.Generator]:
    """Independent generators, the same at every run."""
    return (np.random.default_rng(seed) for seed in np.random.SeedSequence(7).spawn(count))


def report_intervals(replications: int, sizes: list[int]) -> None:
    print(f"{replications} replications; lowest and highest over the strategies or pairs\n")
    print("| data | tasks | Elo | differences | as if independent |\n|---|---:|---:|---:|---:|")
    for scenario in SCENARIOS:
        for tasks in sizes:
            found = interval_coverage(scenario, tasks, replications)
            shares = " | ".join(f"{100 * share.min():.1f}-{100 * share.max():.1f} %" for share in found)
            print(f"| {scenario.name} | {tasks} | {shares} |", flush=True)


def report_ranks(replications: int) -> None:
    print("\n| data | tasks | all rank intervals hold |\n|---|---:|---:|")
    nearly = [
        Scenario("single rankings, nearly equal", nearly_equal),
        Scenario("right or wrong, nearly equal", right_or_wrong(1, 0.0, scale=0.01)),
    ]
    for scenario in [*SCENARIOS[:5], *nearly]:
        print(
            f"| {scenario.name} | 200 | {100 * rank_coverage(scenario, 200, replications):.1f} % |",
            flush=True,
        )


def report_hierarchical(repetitions: int) -> None:
    """Bias with 10 strategies from -1 to 1 on 1,000 tasks: verdicts, one per pair; outcomes, five per trial."""
    mu = np.linspace(-1, 1, 10)
    first, second = np.triu_indices(10, 1)
    print(f"\n{repetitions} repetitions of 10 strategies × 1,000 tasks\n")
    print("| evidence | true σ | mean σ | largest σ | largest bias of a μ | interval of σ holds | of μ |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in ("verdicts", "outcomes"):
        for true in (0.8, 0.0):
            found = []
            for rng in generators(repetitions):
                theta = mu + true * rng.standard_normal((1000, 10))
                if name == "verdicts":
                    wins = rng.binomial(1, 1 / (1 + np.exp(theta[:, second] - theta[:, first]))).astype(float)
                    evidence: Likelihood = Verdicts(
                        strategies=10, first=first, second=second, wins=wins, count=np.ones_like(wins)
                    )
                else:
                    logit = theta + rng.standard_normal((1000, 1))
                    right = rng.binomial(5, 1 / (1 + np.exp(-logit))).astype(float)
                    evidence = Outcomes(successes=right, trials=np.full_like(right, 5))
                found.append(fit_hierarchical(evidence))
            sigma = np.array([fitted.sigma for fitted in found])
            bias = np.abs(np.mean([fitted.mu for fitted in found], axis=0) - mu).max()
            held = np.mean([fitted.sigma_low <= true <= fitted.sigma_high for fitted in found])
            inside = np.mean([np.abs(fitted.mu - mu) <= 1.96 * fitted.mu_se for fitted in found])
            print(
                f"| {name} | {true} | {sigma.mean():.3f} | {sigma.max():.3f} | {bias:.3f} | {100 * held:.0f} % "
                f"| {100 * inside:.1f} % |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--tasks", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--only", choices=["intervals", "ranks", "hierarchical"])
    chosen = parser.parse_args()
    start = time.perf_counter()
    if chosen.only in (None, "intervals"):
        report_intervals(chosen.replications, chosen.tasks)
    if chosen.only in (None, "ranks"):
        report_ranks(chosen.replications)
    if chosen.only in (None, "hierarchical"):
        report_hierarchical(20)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
