"""What changed between two runs of the same strategies on the same tasks.

Both runs' trials are paired by task: a hard task is hard in both, so the difference on each task says more than the two
averages. Means are over tasks with the tasks' weights; an interval is the mean of the differences ± t standard errors,
with the tasks as its units. Elo comes from one ranking of both runs together, in which each strategy stands once for
each run. How far a strategy is from the frontier is the success that it lacks to be on the common frontier of both
runs; the interval of its change is a bootstrap over tasks.

Where a strategy in one run never beat or tied itself in the other, also not by way of others, the penalty alone sets
how far apart its two Elo are (Ford 1957): the change is marked as open and nothing is concluded from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from analysis.arrays import Bools, Floats
from analysis.bootstrap import weighted_means
from analysis.comparisons import cells_from_outcomes
from analysis.errors import FrameError, NotIdentifiedError
from analysis.frames import calls_frame, outcomes_frame
from analysis.intervals import t_quantile
from analysis.options import Options
from analysis.ranking import Ranking, rank
from analysis.resampling import bootstrap_weights
from analysis.tokens import task_matrix, trial_usage

SCHEMA = {
    "strategy": pl.String,
    "figure": pl.String,
    "run_a": pl.Float64,
    "run_b": pl.Float64,
    "change": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "tasks": pl.Int64,
    "significant": pl.Boolean,
    "open": pl.Boolean,
}

PAIRED = {"success_rate": "confirmed_success", "total_tokens": "total_tokens", "cost_usd": "cost_usd"}
"""Figure -> the trials' column that it is the mean of."""
ELO, SHORT = "elo", "short_of_frontier"
PRICES = ("cost_usd", "total_tokens")
"""What a frontier can be drawn over, the better one first."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How run B differs from run A."""

    table: pl.DataFrame
    """`SCHEMA`, one row per strategy and figure: both runs' values on the tasks that both know, the change from A to B
    with its interval, whether the interval leaves out 0, and whether the change has no finite size, so that the penalty
    alone sets it; null where unknown."""
    tasks: int
    """Tasks that both runs have."""
    only_a: int
    only_b: int
    """Tasks that one run has alone; they are left out."""
    strategies_only_a: tuple[str, ...]
    strategies_only_b: tuple[str, ...]
    no_elo: str | None
    """Why there is no Elo, where there is none."""
    price: str | None
    """What the frontier is drawn over: `cost_usd`, or `total_tokens` where a cost is unknown, or nothing."""
    unknown_cost: int
    """Tasks of a strategy that both runs checked and whose cost one of the two does not know."""
    no_frontier: str | None
    """Why there is no frontier, where there is none."""


def usage(outcomes: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """A run's trials with what they used, as `changes` takes them."""
    return trial_usage(outcomes_frame(outcomes), calls_frame(calls))


def changes(a: pl.DataFrame, b: pl.DataFrame, options: Options) -> Changes:
    """Compare two runs.

    Args:
        a, b: as `usage` gives them; task weights are those of `a`.
        options: `level`, `l2`, `bootstrap` and `seed` are used.

    Raises:
        FrameError: the runs have no task, or no strategy, in common.
    """
    tasks = _common(a, b, "task_id", "task")
    names = _common(a, b, "strategy", "strategy")
    only_a, only_b = _alone(a, b, "task_id"), _alone(b, a, "task_id")
    strategies_only_a, strategies_only_b = _alone(a, b, "strategy"), _alone(b, a, "strategy")
    a, b = (_kept(run, tasks, names) for run in (a, b))
    weights = dict(a.select("task_id", "task_weight").iter_rows())
    weight = np.array([weights[task] for task in tasks])
    measured = {
        figure: tuple(task_matrix(run, column, tasks, names) for run in (a, b))
        for figure, column in PAIRED.items()
    }
    rows = [
        {"strategy": name, "figure": figure, **_paired(before[:, s], after[:, s], weight, options.level)}
        for s, name in enumerate(names)
        for figure, (before, after) in measured.items()
    ]
    checked = np.logical_and(*(np.isfinite(run) for run in measured["success_rate"]))
    unknown = {price: _unpriced(measured[price], checked) for price in PRICES}
    price = next((price for price in PRICES if checked.any() and not unknown[price]), None)
    elo_rows, no_elo = _elo(a, b, _in_both(checked, tasks, names), options)
    rows += elo_rows
    if price is not None:
        known = {
            figure: tuple(np.where(checked, run, np.nan) for run in measured[figure])
            for figure in (price, "success_rate")
        }
        rows += _frontier(known[price], known["success_rate"], names, weight, options)
    order = {figure: place for place, figure in enumerate((*PAIRED, ELO, SHORT))}
    rows.sort(key=lambda row: (names.index(str(row["strategy"])), order[str(row["figure"])]))
    return Changes(
        table=pl.DataFrame(rows, schema=SCHEMA),
        tasks=len(tasks),
        only_a=len(only_a),
        only_b=len(only_b),
        strategies_only_a=tuple(strategies_only_a),
        strategies_only_b=tuple(strategies_only_b),
        no_elo=no_elo,
        price=price,
        unknown_cost=unknown["cost_usd"],
        no_frontier=None if price else _no_frontier(checked, unknown["total_tokens"]),
    )


Row = dict[str, object]


def _common(a: pl.DataFrame, b: pl.DataFrame, column: str, what: str) -> list[str]:
    there = set(b[column])
    found = [name for name in a[column].unique(maintain_order=True) if name in there]
    if not found:
        raise FrameError(
            f"The two runs have no {what} in common; compare runs of the same tasks and strategies."
        )
    return found


def _alone(a: pl.DataFrame, b: pl.DataFrame, column: str) -> list[str]:
    there = set(b[column])
    return [name for name in a[column].unique(maintain_order=True) if name not in there]


def _kept(run: pl.DataFrame, tasks: Sequence[str], names: Sequence[str]) -> pl.DataFrame:
    return run.filter(pl.col("task_id").is_in(tasks) & pl.col("strategy").is_in(names))


def _in_both(checked: Bools, tasks: Sequence[str], names: Sequence[str]) -> pl.DataFrame:
    """`task_id` and `strategy` of each cell that was checked in both runs."""
    cells = [(tasks[task], names[s]) for task, s in np.argwhere(checked)]
    return pl.DataFrame(cells, schema={"task_id": pl.String, "strategy": pl.String}, orient="row")


def _paired(a: Floats, b: Floats, weight: Floats, level: float) -> Row:
    """The change of one mean, over the tasks on which both runs know it."""
    known = np.isfinite(a) & np.isfinite(b)
    tasks = int(known.sum())
    if not tasks:
        return {"tasks": 0}
    share = weight[known] / weight[known].sum()
    difference = b[known] - a[known]
    change = float(share @ difference)
    means = {"run_a": float(share @ a[known]), "run_b": float(share @ b[known]), "change": change}
    error = _clustered(share * (difference - change), tasks)
    return {**means, "tasks": tasks, **_interval(change, error, level, tasks - 1)}


def _clustered(influence: Floats, tasks: int) -> float | None:
    """Standard error from what each of the `tasks` moved the estimate by (CR1); None with fewer than two."""
    return math.sqrt(tasks / (tasks - 1) * float(influence @ influence)) if tasks > 1 else None


def _interval(change: float, error: float | None, level: float, degrees: int) -> Row:
    if error is None or degrees < 1:
        return {}
    reach = t_quantile(level, degrees) * error
    # Rounding leaves a change of exactly 0 a little off.
    exact = error <= 1e-12 * max(1.0, abs(change))
    significant = abs(change) > 1e-9 if exact else abs(change) > reach
    return {"low": change - reach, "high": change + reach, "significant": significant}


def _elo(
    a: pl.DataFrame, b: pl.DataFrame, in_both: pl.DataFrame, options: Options
) -> tuple[list[Row], str | None]:
    """Both runs in one ranking by the tasks' checks, with the task weights of the first.

    Args:
        in_both: `task_id` and `strategy` of what both runs checked. The rest would move one run's strategies alone.
    """
    unchecked = [name for name, run in (("A", a), ("B", b)) if run["confirmed_success"].is_null().all()]
    if unchecked:
        return [], (
            f"no answer of run {' and '.join(unchecked)} was checked, and only the tasks' own checks compare the "
            "answers of two runs: judges compare those of one run. Add checks to the tasks, or read each run's report."
        )
    if in_both.is_empty():
        return [], "no strategy has a task that was checked in both runs."
    weights = dict(a.select("task_id", "task_weight").iter_rows())
    names = in_both["strategy"].unique(maintain_order=True).to_list()
    twice = [(run, name) for run in "ab" for name in names]
    label = {key: f"{key[0]}:{key[1]}" for key in twice}
    joint = pl.concat(
        [
            frame.join(in_both, on=["task_id", "strategy"], how="semi", maintain_order="left").with_columns(
                strategy=pl.lit(f"{run}:") + pl.col("strategy"),
                score=pl.lit(None, dtype=pl.Float64),
                task_weight=pl.col("task_id").replace_strict(weights, return_dtype=pl.Float64),
            )
            for run, frame in (("a", a), ("b", b))
        ]
    )
    try:
        ranking = rank(
            cells_from_outcomes(joint, list(label.values())), Options(l2=options.l2, level=options.level)
        )
    except NotIdentifiedError as error:
        return [], str(error)
    return [
        _elo_row(ranking, name, label["a", name], label["b", name], options.level)
        for name in names
        if {label["a", name], label["b", name]} <= set(ranking.strategies)
    ], None


def _elo_row(ranking: Ranking, name: str, before: str, after: str, level: float) -> Row:
    a, b = ranking.strategies.index(before), ranking.strategies.index(after)
    change = float(ranking.elo[b] - ranking.elo[a])
    row: Row = {
        "strategy": name,
        "figure": ELO,
        "run_a": float(ranking.elo[a]),
        "run_b": float(ranking.elo[b]),
        "change": change,
        "tasks": ranking.n_tasks,
    }
    if ranking.group[a] != ranking.group[b]:
        return row | {"open": True}
    row["open"] = False
    if ranking.influence is None:
        return row
    error = _clustered(ranking.influence[:, b] - ranking.influence[:, a], ranking.n_tasks)
    return row | _interval(change, error, level, ranking.degrees)


def _unpriced(price: tuple[Floats, ...], checked: Bools) -> int:
    """Of the checked tasks of each strategy, those whose price one of the runs does not know."""
    known = np.logical_and(*(np.isfinite(run) for run in price))
    return int((checked & ~known).sum())


def _no_frontier(checked: Bools, unknown_tokens: int) -> str:
    if not checked.any():
        return "the frontier is that of success, and no strategy has a task that was checked in both runs."
    return (
        f"of the {int(checked.sum()):,} tasks of a strategy that were checked in both runs, the cost of some and the "
        f"tokens of {unknown_tokens:,} are unknown, and means over the others would be no fair comparison."
    )


def _frontier(
    price: tuple[Floats, ...],
    success: tuple[Floats, ...],
    names: Sequence[str],
    weight: Floats,
    options: Options,
) -> list[Row]:
    """How much success each strategy lacks to be on the common frontier, in both runs.

    Price and success are known on the same tasks of a strategy, in both runs.
    """
    tasks = np.isfinite(success[0]).sum(axis=0)
    prices, successes = np.concatenate(price, axis=1), np.concatenate(success, axis=1)
    lacking = _short(prices, successes, weight[None])[0]
    drawn = bootstrap_weights(len(weight), options.bootstrap, options.seed) * weight
    resampled = _short(prices, successes, drawn)
    size, tail = len(names), (1 - options.level) / 2
    rows: list[Row] = []
    for s, name in enumerate(names):
        before, after = float(lacking[s]), float(lacking[size + s])
        if not (math.isfinite(before) and math.isfinite(after)):
            continue
        moved = resampled[:, size + s] - resampled[:, s]
        moved = moved[np.isfinite(moved)]
        row: Row = {
            "strategy": name,
            "figure": SHORT,
            "run_a": before,
            "run_b": after,
            "change": after - before,
        }
        if len(moved):
            low, high = (float(limit) for limit in np.quantile(moved, [tail, 1 - tail]))
            row |= {"low": low, "high": high, "significant": low > 0 or high < 0}
        rows.append(row | {"tasks": int(tasks[s])})
    return rows


def _short(prices: Floats, successes: Floats, weights: Floats) -> Floats:
    """(B, S) the success that each lacks: the best success at no higher a price, less its own; NaN where unknown."""
    price, success = weighted_means(prices, weights), weighted_means(successes, weights)
    short = np.zeros_like(success)
    for other in range(success.shape[1]):
        affordable = price[:, [other]] <= price
        better = np.where(affordable, success[:, [other]] - success, 0)
        short = np.fmax(short, better)
    return np.where(np.isfinite(price) & np.isfinite(success), short, np.nan)
