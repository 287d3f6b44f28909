"""Two-stage ranking: Elo within each task, averaged over tasks, then put on one scale.

Within a task a penalty keeps abilities finite, which also shrinks them; one global factor, fitted to all
comparisons, undoes that on average. Kept as a check on the one-stage estimate: each task speaks once, however
lopsided its comparisons are.
"""

import numpy as np
from scipy.special import expit

from analysis.arrays import Floats
from analysis.bradley_terry import fit_batch, win_matrix
from analysis.comparisons import Cells

WITHIN_TASK_L2 = 0.1
"""Penalty within a task, where win shares sum to the number of its pairs."""
_STEPS = 100
"""Far more than Newton's method needs in one dimension."""
_FLAT = 1e-9


def two_stage(cells: Cells) -> Floats:
    """(S,) abilities with mean 0.

    Args:
        cells: weighed; every pair of strategies that a task has counts about 1 there.
    """
    size, tasks = len(cells.strategies), len(cells.tasks)
    wins = np.zeros((tasks, size, size))
    np.add.at(wins, (cells.task, cells.first, cells.second), cells.win + cells.tie / 2)
    np.add.at(wins, (cells.task, cells.second, cells.first), cells.loss + cells.tie / 2)
    present = wins.sum(axis=2) + wins.sum(axis=1) > 0
    within, _ = fit_batch(wins, WITHIN_TASK_L2)
    count = np.maximum(1, present.sum(axis=0))
    average = np.where(present, within, 0).sum(axis=0) / count
    average -= average.mean()
    return np.asarray(_calibration(average, win_matrix(cells)) * average)


def _calibration(theta: Floats, wins: Floats) -> float:
    """The factor on `theta` that makes the comparisons most likely, by Newton's method."""
    gap = theta[:, None] - theta[None, :]
    factor = 1.0
    for _ in range(_STEPS if gap.any() else 0):
        chance = expit(factor * gap)
        slope = (wins * gap * (1 - chance)).sum()
        curvature = (wins * gap**2 * chance * (1 - chance)).sum()
        if curvature < _FLAT:
            # The comparisons agree perfectly: any larger factor is as good.
            break
        factor += float(np.clip(slope / curvature, -0.5, 0.5))
    return factor
