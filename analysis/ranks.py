"""Which differences are real: tests of all pairs at once, rank intervals, tiers, tasks needed.

One critical value c for the largest |difference| / standard error over all pairs (max-t) makes all statements
true together with the chosen confidence. A strategy's rank interval counts how many are surely better and
surely worse (Mogstad, Romano, Shaikh & Wilhelm 2024, Rev. Econ. Stud. 91:476).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.arrays import Bools, Floats, Ints
from analysis.ranking import Ranking

_DRAWS = 20_000
_BATCH = 1_000
POWER = 0.8
"""Chance of finding a difference that is as large as estimated, for `tasks_needed`."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The difference between two strategies, the stronger one first."""

    strategy: str
    opponent: str
    difference: float
    """Elo."""
    se: float
    p_value: float
    """Two-sided, for this pair alone."""
    p_adjusted: float
    """The same with all pairs looked at."""
    tasks_needed: int | None
    """About how many tasks in all would find this difference with a chance of 80 %; None where it is 0."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What can be said of the order as a whole."""

    pairs: tuple[Pair, ...]
    rank_low: Ints | None
    """(S,) best rank that is not ruled out; None with fewer tasks than strategies."""
    rank_high: Ints | None
    tiers: tuple[tuple[str, ...], ...]
    """Strategies that the best of their tier is not surely better than."""


def standing(ranking: Ranking) -> Standing | None:
    """Compare all pairs; None where no standard error exists."""
    covariance = ranking.covariance
    if covariance is None:
        return None
    difference, error = _differences(ranking, covariance)
    largest = _largest_t(covariance, error, ranking.degrees, ranking.options.seed)
    # Where the penalty alone sets a distance, its standard error says nothing.
    usable = (error > 0) & (ranking.group[:, None] == ranking.group[None, :])
    ratio = np.where(usable, np.abs(difference) / np.where(usable, error, 1), 0)
    surely = (ratio > np.quantile(largest, ranking.options.level)) & usable
    better = surely & (difference > 0)
    enough = ranking.n_tasks >= len(ranking.strategies)
    return Standing(
        pairs=_pairs(ranking, difference, error, usable, largest),
        rank_low=1 + better.sum(axis=0) if enough else None,
        rank_high=len(better) - better.sum(axis=1) if enough else None,
        tiers=_tiers(ranking, better),
    )


def ranks(elo: Floats) -> Ints:
    """(S,) rank by Elo from 1; equal Elo shares the better rank."""
    rounded = np.round(elo, 9)
    return np.asarray(1 + (rounded[:, None] < rounded[None, :]).sum(axis=1), dtype=np.int64)


def _differences(ranking: Ranking, covariance: Floats) -> tuple[Floats, Floats]:
    variance = np.diag(covariance)
    squared = variance[:, None] + variance[None, :] - 2 * covariance
    elo = ranking.elo
    # Two strategies with the same results differ by rounding alone.
    error = np.sqrt(np.where(squared > 1e-12 * variance.max(initial=0.0), squared, 0))
    return elo[:, None] - elo[None, :], error


def _largest_t(covariance: Floats, error: Floats, degrees: int, seed: int) -> Floats:
    """Draws of the largest |t| over all pairs if no two strategies differed."""
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    first, second = np.nonzero(np.triu(error, 1) > 0)
    largest = [np.zeros(0)]
    for _ in range(_DRAWS // _BATCH):
        normal = rng.standard_normal((_BATCH, len(root))) @ root.T
        spread = np.sqrt(rng.chisquare(degrees, size=_BATCH) / degrees)
        ratio = np.abs(normal[:, first] - normal[:, second]) / error[first, second]
        largest.append(ratio.max(axis=1, initial=0.0) / spread)
    return np.concatenate(largest)


def _pairs(
    ranking: Ranking, difference: Floats, error: Floats, usable: Bools, largest: Floats
) -> tuple[Pair, ...]:
    order = np.argsort(-ranking.elo, kind="stable")
    ordered = np.sort(largest)
    found = []
    for place, i in enumerate(order):
        for j in order[place + 1 :]:
            if not usable[i, j]:
                continue
            ratio = difference[i, j] / error[i, j]
            beyond = len(ordered) - np.searchsorted(ordered, ratio)
            found.append(
                Pair(
                    strategy=ranking.strategies[i],
                    opponent=ranking.strategies[j],
                    difference=float(difference[i, j]),
                    se=float(error[i, j]),
                    p_value=float(2 * special.stdtr(ranking.degrees, -ratio)),
                    p_adjusted=float((beyond + 1) / (len(ordered) + 1)),
                    tasks_needed=_tasks_needed(ratio, ranking.n_tasks, ranking.options.level),
                )
            )
    return tuple(found)


def _tasks_needed(ratio: float, n_tasks: int, level: float) -> int | None:
    if ratio < 1e-6:
        return None
    wanted = float(special.ndtri((1 + level) / 2) + special.ndtri(POWER))
    return math.ceil(n_tasks * (wanted / ratio) ** 2)


def _tiers(ranking: Ranking, better: Bools) -> tuple[tuple[str, ...], ...]:
    tiers: list[list[int]] = []
    for index in np.argsort(-ranking.elo, kind="stable").tolist():
        if not tiers or better[tiers[-1][0], index]:
            tiers.append([index])
        else:
            tiers[-1].append(index)
    return tuple(tuple(ranking.strategies[index] for index in tier) for tier in tiers)
