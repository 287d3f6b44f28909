"""The whole result again on resampled tasks: Elo, tokens, cost and success of the same tasks move
together."""

from dataclasses import dataclass

import numpy as np

from analysis.arrays import Floats
from analysis.bradley_terry import elo
from analysis.ranking import Ranking, anchor_index
from analysis.resampling import bootstrap_weights, refit


@dataclass(frozen=True, kw_only=True)
class Resamples:
    """B results, each on as many tasks as there are, drawn with replacement. NaN where unknown."""

    task_counts: Floats
    """(B, T) how often each task was drawn."""
    elo: Floats | None
    """(B, S) Elo of the ranked strategies; None without a ranking."""


def resample(ranking: Ranking | None, n_tasks: int, *, resamples: int, seed: int) -> Resamples:
    """Draw tasks and fit again.

    Args:
        ranking: its tasks are the T tasks; None where there is none.
        n_tasks: T.
        resamples: B.
        seed: the same seed draws the same tasks.
    """
    counts = bootstrap_weights(n_tasks, resamples, seed)
    if ranking is None:
        return Resamples(task_counts=counts, elo=None)
    theta = refit(ranking.weighed, counts, l2=ranking.options.l2, ties=ranking.options.weighting.ties)
    return Resamples(task_counts=counts, elo=elo(theta, anchor_index(ranking)))


def weighted_means(values: Floats, weights: Floats) -> Floats:
    """(B, S) means of (T, S) `values` over tasks with (B, T) `weights`, unknown ones (NaN) left out."""
    known = np.isfinite(values)
    total = weights @ known.astype(np.float64)
    return np.where(total > 0, weights @ np.where(known, values, 0) / np.where(total > 0, total, 1), np.nan)
