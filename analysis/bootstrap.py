"""The whole result again on resampled tasks: Elo, tokens, cost and success of the same tasks move
together."""

from dataclasses import dataclass

import numpy as np

from analysis.arrays import Floats
from analysis.bradley_terry import elo
from analysis.ranking import Ranking, anchor_index
from analysis.resampling import bootstrap_weights, refit

_NUMBERS_AT_ONCE = 20_000_000
"""Task counts that are held in memory together."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """(T, S) values per task and strategy, NaN where unknown; S are all strategies, ranked or not."""

    strategies: tuple[str, ...]
    tokens: Floats
    cost_usd: Floats
    success: Floats
    weights: Floats
    """(T,) how much each task counts."""


@dataclass(frozen=True, kw_only=True)
class Averages:
    """(B, S) what comes out of B sets of tasks; NaN where unknown."""

    elo: Floats
    tokens: Floats
    cost_usd: Floats
    success: Floats


def observed(ranking: Ranking | None, measured: Measured) -> Averages:
    """The result on the tasks as they are: B is 1."""
    elo_found = None if ranking is None else ranking.elo[None]
    return _averages(ranking, measured, np.ones((1, len(measured.weights))), elo_found)


def resample(ranking: Ranking | None, measured: Measured, *, resamples: int, seed: int) -> Averages:
    """The results on `resamples` sets of as many tasks, drawn with replacement; the same seed draws the
    same."""
    tasks = len(measured.weights)
    size = max(1, _NUMBERS_AT_ONCE // max(1, tasks))
    seeds = np.random.SeedSequence(seed).spawn(-(-resamples // size))
    parts = []
    for number, own in enumerate(seeds):
        counts = bootstrap_weights(tasks, min(size, resamples - number * size), own)
        parts.append(_averages(ranking, measured, counts, _refitted(ranking, counts)))
    names = Averages.__dataclass_fields__
    nothing = np.zeros((0, len(measured.strategies)))
    return Averages(
        **{name: np.concatenate([nothing, *(getattr(part, name) for part in parts)]) for name in names}
    )


def _refitted(ranking: Ranking | None, counts: Floats) -> Floats | None:
    if ranking is None:
        return None
    theta = refit(ranking.weighed, counts, l2=ranking.options.l2, ties=ranking.options.weighting.ties)
    return elo(theta, anchor_index(ranking))


def _averages(ranking: Ranking | None, measured: Measured, counts: Floats, found: Floats | None) -> Averages:
    weights = counts * measured.weights
    spread = np.full((len(counts), len(measured.strategies)), np.nan)
    if ranking is not None and found is not None:
        spread[:, [measured.strategies.index(name) for name in ranking.strategies]] = found
    return Averages(
        elo=spread,
        tokens=weighted_means(measured.tokens, weights),
        cost_usd=weighted_means(measured.cost_usd, weights),
        success=weighted_means(measured.success, weights),
    )


def weighted_means(values: Floats, weights: Floats) -> Floats:
    """(B, S) means of (T, S) `values` over tasks with (B, T) `weights`, unknown ones (NaN) left out."""
    known = np.isfinite(values)
    total = weights @ known.astype(np.float64)
    return np.where(total > 0, weights @ np.where(known, values, 0) / np.where(total > 0, total, 1), np.nan)
