"""Fitting the same comparisons many times over with other weights of the tasks: bootstrap and jackknife."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from analysis import bradley_terry, davidson
from analysis.arrays import Floats
from analysis.comparisons import Cells
from analysis.weighting import Ties

_DENSE_BELOW = 10_000_000
"""Numbers in a dense tasks × pairs matrix up to which it beats a sparse one."""
_BATCH = 250
"""Resamples at a time, which bounds memory."""


def refit(cells: Cells, task_weights: Floats, *, l2: float, ties: Ties) -> Floats:
    """(B, S) abilities, one fit for each row of (B, T) `task_weights`.

    Args:
        cells: already weighed; a task's weight in a resample multiplies its cells.
        task_weights: how often each task counts.
        l2: the penalty's weight.
        ties: the tie rule that `cells` were weighed with.
    """
    size = len(cells.strategies)
    if ties == "davidson":
        wins = _task_matrix(cells, cells.win, cells.loss)
        tied = _task_matrix(cells, cells.tie, cells.tie)
        fits = [
            davidson.fit_batch(_sums(part, wins, size), _sums(part, tied, size), l2)[0]
            for part in _parts(task_weights)
        ]
    else:
        wins = _task_matrix(cells, cells.win + cells.tie / 2, cells.loss + cells.tie / 2)
        fits = [bradley_terry.fit_batch(_sums(part, wins, size), l2)[0] for part in _parts(task_weights)]
    return np.concatenate(fits) if fits else np.zeros((0, size))


def bootstrap_weights(n_tasks: int, resamples: int, seed: int | np.random.SeedSequence) -> Floats:
    """(B, T) how often each task is drawn when as many tasks as there are are drawn with replacement."""
    if n_tasks == 0:
        return np.zeros((resamples, 0))
    rng = np.random.default_rng(seed)
    return rng.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), size=resamples).astype(np.float64)


def _parts(weights: Floats) -> Iterator[Floats]:
    return (weights[start : start + _BATCH] for start in range(0, len(weights), _BATCH))


def _sums(weights: Floats, matrix: "Floats | sparse.csr_array", size: int) -> Floats:
    return np.asarray(weights @ matrix).reshape(len(weights), size, size)


def _task_matrix(cells: Cells, forward: Floats, backward: Floats) -> "Floats | sparse.csr_array":
    """(T, S·S) weight of each ordered pair on each task."""
    size, tasks = len(cells.strategies), len(cells.tasks)
    rows = np.concatenate([cells.task, cells.task])
    columns = np.concatenate([cells.first * size + cells.second, cells.second * size + cells.first])
    values = np.concatenate([forward, backward])
    shape = (tasks, size * size)
    if tasks * size * size <= _DENSE_BELOW:
        return np.bincount(rows * size * size + columns, values, tasks * size * size).reshape(shape)
    return sparse.csr_array((values, (rows, columns)), shape=shape)
