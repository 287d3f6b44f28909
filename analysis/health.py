"""Whether comparisons can carry an estimate at all, and what to be careful about."""

import numpy as np
from scipy.sparse.csgraph import connected_components

from analysis.arrays import Bools, Floats, Ints
from analysis.bradley_terry import ELO_PER_THETA
from analysis.comparisons import Cells
from analysis.errors import NotIdentifiedError


def compared_strategies(cells: Cells) -> Bools:
    """(S,) whether the strategy has any comparison that counts."""
    counts = np.bincount(cells.first, minlength=len(cells.strategies))
    counts = counts + np.bincount(cells.second, minlength=len(cells.strategies))
    return np.asarray(counts > 0)


def refuse_islands(cells: Cells) -> None:
    """Raises `NotIdentifiedError` with the list of groups that no comparison connects."""
    size = len(cells.strategies)
    adjacent = np.zeros((size, size))
    adjacent[cells.first, cells.second] = 1
    count, group = connected_components(adjacent, directed=False)
    if count < 2:
        return
    names = [", ".join(cells.strategies[i] for i in np.flatnonzero(group == g)) for g in range(count)]
    raise NotIdentifiedError(
        f"{count} groups of strategies were never compared with each other, so no Elo spans them: "
        + "; ".join(f"[{name}]" for name in names)
        + ". Run a common task for two groups, or analyse each alone."
    )


def strong_groups(wins: Floats) -> Ints:
    """(S,) number of each strategy's group; within a group everybody is linked to everybody by wins (Ford
    1957).

    With more than one group the distance between groups has no finite maximum likelihood.
    """
    return np.asarray(connected_components(wins > 0, connection="strong")[1], dtype=np.int64)


def open_sides(wins: Floats) -> tuple[Bools, Bools]:
    """(S,) strategies whose ability has no limit upwards, and downwards.

    A group that never lost to the rest has no upper limit, one that never won no lower one. The largest
    group, where there is just one of that size, is what the others are measured against, and is not marked.
    """
    group = strong_groups(wins)
    crossing = wins * (group[:, None] != group[None, :])
    sizes = np.bincount(group)
    reference = sizes == sizes.max()
    marked = ~reference if reference.sum() == 1 else np.ones(len(sizes), dtype=np.bool_)
    won = np.bincount(group, crossing.sum(axis=1)) > 0
    lost = np.bincount(group, crossing.sum(axis=0)) > 0
    return np.asarray((won & marked)[group]), np.asarray((lost & marked)[group])


def spotless_shift(cells: Cells, theta: Floats, strategy: int, *, sign: int, level: float) -> float:
    """Elo from the estimate to the limit of a one-sided interval, in the direction against `sign`.

    Generalises the rule of three: at the limit, a record without a loss (`sign` 1) or a win (`sign` -1) on
    these tasks, each counted as one observation, still had the probability 1 - level.
    """
    from scipy.optimize import brentq

    mine = (cells.first == strategy) | (cells.second == strategy)
    task, total = cells.task[mine], cells.total[mine]
    other = np.where(cells.first[mine] == strategy, cells.second[mine], cells.first[mine])
    share = total / np.bincount(task, total)[task]

    def surplus(shift: float) -> float:
        gap = sign * (theta[strategy] - theta[other]) + shift
        return float(-(share * np.logaddexp(0, -gap)).sum() - np.log(1 - level))

    if surplus(0) < 0:
        return 0.0
    size = len(cells.strategies)
    found = float(brentq(surplus, -60, 0)) if surplus(-60) < 0 else -60.0
    return sign * found * (1 - 1 / size) * ELO_PER_THETA
