"""Speed beside other ranking libraries, all in one process on the same data.

    python benchmarks/ranking.py [--tasks 10000] [--repeats 3]

Every peer starts from the comparisons in memory in the form it takes (ours: a polars frame of names) and ends
with abilities, ours also with intervals clustered by task. Peers that are not installed are left out.
"""

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from analysis.bootstrap import Measured, resample
from analysis.comparisons import cells_from_comparisons
from analysis.hierarchical import fit_hierarchical
from analysis.likelihoods import Verdicts
from analysis.options import Options
from analysis.ranking import Ranking, rank
from analysis.sources import read_table

STRATEGIES = 10


def comparisons(tasks: int, strategies: int = STRATEGIES, pairs_per_task: int | None = None) -> pl.DataFrame:
    """One comparison for each pair of strategies on each task, some of them ties."""
    rng = np.random.default_rng(7)
    first, second = np.triu_indices(strategies, 1)
    score = np.linspace(-1, 1, strategies) + 0.8 * rng.standard_normal((tasks, strategies))
    score = np.round(score + rng.logistic(size=score.shape), 1)
    chosen = slice(0, pairs_per_task)
    gap = (score[:, first[chosen]] - score[:, second[chosen]]).ravel()
    i, j = np.tile(first[chosen], tasks), np.tile(second[chosen], tasks)
    names = np.array([f"s{number:02d}" for number in range(strategies)])
    return pl.DataFrame(
        {
            "task_id": np.char.add("t", np.repeat(np.arange(tasks), len(first[chosen])).astype(str)),
            "winner": names[np.where(gap >= 0, i, j)],
            "loser": names[np.where(gap >= 0, j, i)],
            "tie": gap == 0,
        }
    )


def timed(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Seconds of the fastest of some runs, by the clock and of the processor (all threads)."""
    clock, processor = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        run()
        clock.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return min(clock), min(processor)


def ours(table: pl.DataFrame) -> Ranking:
    ranking = rank(cells_from_comparisons(table), Options())
    ranking.intervals()
    return ranking


def peers(table: pl.DataFrame) -> dict[str, Callable[[], object]]:
    """Fits without intervals, except arena-rank's."""
    found: dict[str, Callable[[], object]] = {}
    winner, loser, tie = (table[name].to_list() for name in ("winner", "loser", "tie"))
    if importlib.util.find_spec("evalica"):
        import evalica

        results = [evalica.Winner.Draw if tied else evalica.Winner.X for tied in tie]
        found["evalica"] = lambda: evalica.bradley_terry(winner, loser, results)
    if importlib.util.find_spec("choix"):
        import choix

        decisive = table.filter(~pl.col("tie"))
        codes = {name: number for number, name in enumerate(sorted(set(winner) | set(loser)))}
        data = [(codes[w], codes[x]) for w, x in decisive.select("winner", "loser").iter_rows()]
        found["choix (ties left out)"] = lambda: choix.ilsr_pairwise(len(codes), data)
    if importlib.util.find_spec("arena_rank"):
        from arena_rank.models.bradley_terry import BradleyTerry
        from arena_rank.utils.data_utils import PairDataset

        frame = table.select(
            model_a="winner",
            model_b="loser",
            winner=pl.when("tie").then(pl.lit("tie")).otherwise(pl.lit("model_a")),
        ).to_pandas()

        def arena() -> object:
            dataset = PairDataset.from_pandas(frame)
            return BradleyTerry(n_competitors=len(dataset.competitors)).compute_ratings_and_cis(dataset)

        found["arena-rank (own intervals)"] = arena
    return found


def report_fits(table: pl.DataFrame, repeats: int) -> None:
    mine, mine_cpu = timed(lambda: ours(table), repeats)
    print(f"\n{table.height:,} comparisons\n\n| fit | seconds | of ours | CPU seconds | of ours |")
    print("|---|---:|---:|---:|---:|")
    print(f"| Paretoken, with intervals clustered by task | {mine:.3f} | 1.0 | {mine_cpu:.3f} | 1.0 |")
    for name, run in peers(table).items():
        seconds, cpu = timed(run, repeats)
        print(
            f"| {name} | {seconds:.3f} | {seconds / mine:.1f} | {cpu:.3f} | {cpu / mine_cpu:.1f} |",
            flush=True,
        )


def report_bootstrap(table: pl.DataFrame) -> None:
    ranking = ours(table)
    unknown = np.full((len(ranking.cells.tasks), STRATEGIES), np.nan)
    measured = Measured(
        strategies=ranking.strategies,
        tokens=unknown,
        cost_usd=unknown,
        success=unknown,
        weights=ranking.cells.task_weight,
    )
    mine, cpu = timed(lambda: resample(ranking, measured, resamples=1000, seed=0), 3)
    print("\n| bootstrap | seconds | CPU seconds |\n|---|---:|---:|")
    print(f"| Paretoken, 1,000 resamples of tasks | {mine:.3f} | {cpu:.3f} |")
    if importlib.util.find_spec("evalica"):
        fit = peers(table)["evalica"]
        seconds, cpu = timed(lambda: [fit() for _ in range(10)], 1)
        print(f"| evalica, 10 fits | {seconds:.3f} | {cpu:.3f} |", flush=True)


def report_hierarchical(tasks: int) -> None:
    rng = np.random.default_rng(3)
    first, second = np.triu_indices(STRATEGIES, 1)
    theta = np.linspace(-1, 1, STRATEGIES) + 0.8 * rng.standard_normal((tasks, STRATEGIES))
    wins = rng.binomial(2, 1 / (1 + np.exp(theta[:, second] - theta[:, first]))).astype(float)
    evidence = Verdicts(
        strategies=STRATEGIES, first=first, second=second, wins=wins, count=np.full_like(wins, 2)
    )
    start, used = time.perf_counter(), time.process_time()
    fitted = fit_hierarchical(evidence)
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    print(
        f"\nHierarchical, {STRATEGIES} strategies × {tasks:,} tasks, 2 verdicts per pair: "
        f"{seconds:.1f} s ({cpu:.1f} s CPU), σ {fitted.sigma:.3f}"
    )


def report_parquet() -> None:
    """1,000,000 comparisons of 10 strategies from a file, in a process of its own so that its memory shows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "comparisons.parquet"
        comparisons(22_223).head(1_000_000).write_parquet(path)
        print(
            subprocess.run(
                [sys.executable, __file__, "--read", str(path)], check=True, capture_output=True, text=True
            ).stdout
        )


def read_and_fit(path: Path) -> None:
    start, used = time.perf_counter(), time.process_time()
    ranking = ours(read_table(path))
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    # Linux: unlike ru_maxrss, this is not inherited from the process that started this one.
    peak = int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text()).group(1)) / 1024
    print(
        f"{ranking.cells.total.sum():,.0f} comparisons from Parquet: {seconds:.2f} s ({cpu:.2f} s CPU), "
        f"peak {peak:.0f} MB in all"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.read:
        read_and_fit(chosen.read)
        return
    table = comparisons(chosen.tasks)
    report_fits(table, chosen.repeats)
    report_bootstrap(table)
    report_parquet()
    report_hierarchical(chosen.tasks)


if __name__ == "__main__":
    main()
