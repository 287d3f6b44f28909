"""Two-stage ranking: Elo within each task, averaged over tasks, then put on one scale.

Within a task a penalty keeps abilities finite, which also shrinks them; one global factor, fitted to all
comparisons, undoes that on average. Kept as a check on the one-stage estimate: each task speaks once, however
lopsided its comparisons are.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from analysis.arrays import Floats
from analysis.bradley_terry import fit_batch, win_matrix
from analysis.comparisons import Cells

WITHIN_TASK_L2 = 0.1
"""Penalty within a task, where win shares sum to the number of its pairs."""


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
    """The factor on `theta` that makes the comparisons most likely."""
    gap = theta[:, None] - theta[None, :]
    if not gap.any():
        return 1.0

    def loss(log_factor: float) -> float:
        return float((wins * np.logaddexp(0, -np.exp(log_factor) * gap)).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-5, 5), method="bounded").x))
