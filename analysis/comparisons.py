"""Comparisons as sufficient statistics: per task and pair of strategies, how much was won, lost and tied.

A comparison says that on one task one strategy did better than another, or that they tied. Many comparisons
of one pair on one task (repeats, several judges) fall into one *cell*. Everything that is estimated later
needs only the cells, so a million comparisons become at most tasks × pairs rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from analysis.arrays import Floats, Ints
from analysis.errors import FrameError


@dataclass(frozen=True, kw_only=True)
class Cells:
    """K cells: comparisons of strategies `first < second` on a task, summed. All arrays have length K."""

    tasks: tuple[str, ...]
    """Names of all T tasks, also of those without a comparison."""
    strategies: tuple[str, ...]
    """Names of all S strategies."""
    task_weight: Floats
    """(T,) how much a task counts, 1 unless its author says otherwise."""
    task: Ints
    first: Ints
    second: Ints
    win: Floats
    """Comparisons that `first` won."""
    loss: Floats
    """Comparisons that `second` won."""
    tie: Floats
    items: Floats
    """How many strategies were ranked together (2 for a verdict on one pair): a ranking of k items becomes
    k(k-1)/2 comparisons, which weigh 1/(k-1) each under the ranking weight."""

    @cached_property
    def total(self) -> Floats:
        """Comparisons per cell, ties included."""
        return self.win + self.loss + self.tie

    @cached_property
    def n_tasks(self) -> int:
        """Tasks with at least one comparison: the clusters of every standard error."""
        return int(np.count_nonzero(np.bincount(self.task)))

    @cached_property
    def n_decisive_tasks(self) -> int:
        """Tasks with at least one comparison that is no tie."""
        return int(np.count_nonzero(np.bincount(self.task, self.win + self.loss)))

    @property
    def tie_share(self) -> float | None:
        """Mean share of ties over the cells, None without any."""
        return float(np.mean(self.tie / self.total)) if len(self.task) else None


def cells_from_outcomes(outcomes: pl.DataFrame, strategies: Sequence[str]) -> Cells:
    """Compare all repeats of two strategies on a task with each other.

    Args:
        outcomes: as `frames.outcomes_frame` gives it. A task whose judged trials all have a `score` is
            compared by score, any other by `confirmed_success`; trials with neither are left out.
        strategies: the order of the strategies; it decides nothing but the order of the arrays.
    """
    by_task = outcomes.group_by("task_id").agg(pl.col("task_weight").first()).sort("task_id")
    counted = _values(outcomes).group_by("task_id", "strategy", "value").agg(n=pl.len().cast(pl.Float64))
    place = {name: index for index, name in enumerate(strategies)}
    tasks = by_task["task_id"].to_list()
    numbered = by_task.select("task_id").with_row_index("task")
    coded = (
        counted.join(numbered, on="task_id")
        .select("task", "value", "n", s=pl.col("strategy").replace_strict(place, return_dtype=pl.Int64))
        .sort("task")
    )
    pairs = pl.concat([_task_pairs(part) for part in _slices(coded)])
    return _cells(pairs, tasks, strategies, by_task["task_weight"].to_numpy())


def cells_from_comparisons(
    comparisons: pl.DataFrame,
    strategies: Sequence[str] | None = None,
    task_weights: Mapping[str, float] | None = None,
) -> Cells:
    """Sum a table of comparisons.

    Args:
        comparisons: `task_id`, `winner`, `loser`, and optionally `tie` (then the two names have no order),
            `weight` (1), `items` (2; how many were ranked together).
        strategies: all names, in the order of the arrays; by default those that occur, sorted.
        task_weights: more tasks that belong to the analysis, and how much each counts (1 where not given).

    Raises:
        FrameError: a name that is not among `strategies`, a strategy compared with itself, a bad weight.
    """
    table = _comparison_columns(comparisons)
    both = pl.concat([table["winner"], table["loser"].alias("winner")])
    names, side = _codes(both, strategies, what="strategy")
    tasks, task = _codes(table["task_id"], None, what="task", more=task_weights or {})
    winner, loser = side[: table.height], side[table.height :]
    _refuse_self(winner, loser, task, names, tasks)
    size = len(names)
    place = (task * size + np.minimum(winner, loser)) * size + np.maximum(winner, loser)
    key, row = _distinct(place, len(tasks) * size * size)
    weight, tie = table["weight"].to_numpy(), table["tie"].to_numpy()
    first_won = (winner < loser) & ~tie

    def summed(values: Floats) -> Floats:
        return np.asarray(np.bincount(row, values, len(key)), dtype=np.float64)

    total, win, tied = summed(weight), summed(weight * first_won), summed(weight * tie)
    return Cells(
        tasks=tuple(tasks),
        strategies=tuple(names),
        task_weight=np.array([(task_weights or {}).get(name, 1.0) for name in tasks], dtype=np.float64),
        task=key // (size * size),
        first=key // size % size,
        second=key % size,
        win=win,
        loss=np.maximum(0, summed(weight * ~(first_won | tie))),
        tie=tied,
        items=1 + total / summed(weight / (table["items"].to_numpy() - 1)),
    )


def comparison_table(cells: Cells) -> pl.DataFrame:
    """The cells as comparisons: `task_id, winner, loser, tie, weight`.

    At most three rows per task and pair, whose weights are win shares and sum to 1; in a tie the two names
    have no order. `cells_from_comparisons` reads it back.
    """
    total = cells.total
    parts = [
        _rows(cells, cells.first, cells.second, cells.win / total, tie=False),
        _rows(cells, cells.second, cells.first, cells.loss / total, tie=False),
        _rows(cells, cells.first, cells.second, cells.tie / total, tie=True),
    ]
    order = (
        pl.concat(parts)
        .filter(pl.col("weight") > 0)
        .sort("task", "pair", "tie", "winner", maintain_order=True)
    )
    return order.select("task_id", "winner", "loser", "tie", "weight")


_ROWS_AT_ONCE = 4_000_000
"""Rows of a join that are held in memory together."""


def _slices(coded: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows in runs of whole tasks whose pairs fit in memory; at least one, be it empty."""
    squared = coded.group_by("task", maintain_order=True).agg(pairs=pl.len().cast(pl.Int64) ** 2)
    run = squared.with_columns(run=pl.col("pairs").cum_sum() // _ROWS_AT_ONCE).select("task", "run")
    parts = coded.join(run, on="task", maintain_order="left").partition_by("run", maintain_order=True)
    yield from parts or [coded]


def _task_pairs(coded: pl.DataFrame) -> pl.DataFrame:
    """All values of two strategies on a task compared with each other, each as often as both occur."""
    size = coded.group_by("task").agg(items=pl.col("s").n_unique().cast(pl.Float64))
    n = pl.col("n") * pl.col("n_right")
    return (
        coded.join(coded, on="task", suffix="_right")
        .filter(pl.col("s") < pl.col("s_right"))
        .group_by("task", "s", "s_right")
        .agg(
            win=n.filter(pl.col("value") > pl.col("value_right")).sum(),
            loss=n.filter(pl.col("value") < pl.col("value_right")).sum(),
            tie=n.filter(pl.col("value") == pl.col("value_right")).sum(),
        )
        .join(size, on="task")
    )


def _values(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Judged trials with one comparable `value`; per task either all scores or all verdicts."""
    judged = outcomes.filter(pl.col("confirmed_success").is_not_null() | pl.col("score").is_not_null())
    scored = pl.col("score").is_not_null().all().over("task_id")
    value = pl.when(scored).then(pl.col("score")).otherwise(pl.col("confirmed_success").cast(pl.Float64))
    return judged.with_columns(value=value).filter(pl.col("value").is_not_null())


def _comparison_columns(comparisons: pl.DataFrame) -> pl.DataFrame:
    for name in ("task_id", "winner", "loser"):
        if name not in comparisons.columns:
            raise FrameError(f"comparisons: no column {name} (there are: {', '.join(comparisons.columns)}).")
        if comparisons[name].null_count():
            raise FrameError(f"comparisons: {name} is empty in some row; a tie names both and sets tie.")
    defaults = {"tie": pl.lit(value=False), "weight": pl.lit(1.0), "items": pl.lit(2.0)}
    absent = [value.alias(name) for name, value in defaults.items() if name not in comparisons.columns]
    table = comparisons.with_columns(absent).with_columns(
        pl.col("task_id", "winner", "loser").cast(pl.String),
        pl.col("tie").cast(pl.Boolean).fill_null(value=False),
        pl.col("weight").cast(pl.Float64).fill_null(1.0),
        pl.col("items").cast(pl.Float64).fill_null(2.0),
    )
    if table.filter(~((pl.col("weight") > 0) & pl.col("weight").is_finite())).height:
        raise FrameError("comparisons: every weight must be a number above 0.")
    if table.filter(pl.col("items") < 2).height:
        raise FrameError("comparisons: items must be at least 2.")
    return table


def _cells(
    pairs: pl.DataFrame, tasks: Sequence[str], strategies: Sequence[str], task_weight: Floats
) -> Cells:
    coded = pairs.sort("task", "s", "s_right")
    return Cells(
        tasks=tuple(tasks),
        strategies=tuple(strategies),
        task_weight=task_weight.astype(np.float64),
        task=coded["task"].to_numpy().astype(np.int64),
        first=coded["s"].to_numpy().astype(np.int64),
        second=coded["s_right"].to_numpy().astype(np.int64),
        win=coded["win"].to_numpy().astype(np.float64),
        loss=coded["loss"].to_numpy().astype(np.float64),
        tie=coded["tie"].to_numpy().astype(np.float64),
        items=coded["items"].to_numpy().astype(np.float64),
    )


def _codes(
    column: pl.Series, known: Sequence[str] | None, *, what: str, more: Iterable[str] = ()
) -> tuple[list[str], Ints]:
    """The names, and each row's place among them: the known ones in their order, or all that occur,
    sorted."""
    # Categories of their own make the codes small, in the order in which the names first occur.
    code = column.cast(pl.Categorical(pl.Categories.random())).to_physical().to_numpy().astype(np.int64)
    first = np.zeros(int(code.max(initial=-1)) + 1, dtype=np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    occurring = column.gather(first).to_list()
    names = list(known) if known is not None else sorted({*occurring, *more})
    place = {name: index for index, name in enumerate(names)}
    unknown = sorted(set(occurring) - set(place))
    if unknown:
        raise FrameError(f"comparisons: unknown {what} {unknown[0]!r}; known are {', '.join(names)}.")
    return names, np.array([place[name] for name in occurring], dtype=np.int64)[code]


def _refuse_self(winner: Ints, loser: Ints, task: Ints, names: Sequence[str], tasks: Sequence[str]) -> None:
    alone = np.flatnonzero(winner == loser)
    if len(alone):
        name, where = names[winner[alone[0]]], tasks[task[alone[0]]]
        raise FrameError(f"comparisons: {name!r} is compared with itself on task {where!r}.")


def _distinct(place: Ints, space: int) -> tuple[Ints, Ints]:
    """The distinct places, rising, and each row's index among them; by counting where that is cheaper."""
    if space > 4 * len(place) + 1_000_000:
        key, row = np.unique(place, return_inverse=True)
        return key, row
    there = np.bincount(place, minlength=space) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[place]


def _rows(cells: Cells, winner: Ints, loser: Ints, weight: Floats, *, tie: bool) -> pl.DataFrame:
    names = pl.Series(cells.strategies, dtype=pl.String)
    return pl.DataFrame(
        {
            "task": cells.task,
            "pair": cells.first * len(names) + cells.second,
            "task_id": pl.Series(cells.tasks, dtype=pl.String).gather(cells.task),
            "winner": names.gather(winner),
            "loser": names.gather(loser),
            "tie": np.full(len(weight), tie),
            "weight": weight,
        }
    )
