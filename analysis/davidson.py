r"""Bradley-Terry with ties as outcomes of their own (Davidson 1970, JASA 65:317).

With $g = \theta_i - \theta_j$ the three outcomes have chances proportional to $e^{g/2}$ (i wins), $e^{-g/2}$
(j wins) and $\nu$ (tie). Penalty λ·Σθ² as in `bradley_terry`; ν is not penalised.
"""

import numpy as np

from analysis.arrays import Floats
from analysis.bradley_terry import MAX_STEPS, Fit, refuse_unbounded
from analysis.comparisons import Cells

_TOLERANCE = 1e-10
_SMALLEST_LOG_TIE = -15.0
"""Without a single tie the best ν is 0, whose logarithm is -∞: this is as good."""


def fit(wins: Floats, ties: Floats, l2: float) -> Fit:
    """Maximise the penalised likelihood.

    Args:
        wins: (S, S) wins of the row over the column, without ties.
        ties: (S, S) ties, symmetric.
        l2: the penalty's weight.

    Raises:
        NotIdentifiedError: without penalty, where some strategies never won or tied against the others.
    """
    refuse_unbounded(wins + ties, l2)
    theta, log_tie, steps = fit_batch(wins[None], ties[None], l2)
    gradient, information = _derivatives(wins[None], ties[None], theta, log_tie, l2)
    return Fit(
        theta=theta[0],
        bread=np.linalg.pinv(information[0], hermitian=True),
        steps=steps,
        largest_gradient=float(np.abs(gradient).max(initial=0.0)),
        tie_strength=float(np.exp(log_tie[0])),
    )


def fit_batch(wins: Floats, ties: Floats, l2: float) -> tuple[Floats, Floats, int]:
    """Fit B pairs of matrices (B, S, S) at once -> abilities (B, S), log ν (B,), steps of the slowest."""
    batch, size, _ = wins.shape
    theta, log_tie = np.zeros((batch, size)), np.zeros(batch)
    scale = max(1.0, float(wins.sum(axis=(1, 2)).max(initial=0.0)))
    for step in range(1, MAX_STEPS + 1):
        gradient, information = _derivatives(wins, ties, theta, log_tie, l2)
        if np.abs(gradient).max(initial=0.0) < _TOLERANCE * scale:
            return theta, log_tie, step - 1
        information[:, :size, :size] += 1 / size
        change = np.clip(np.linalg.solve(information, gradient[..., None])[..., 0], -1, 1)
        theta = theta + change[:, :size]
        theta -= theta.mean(axis=1, keepdims=True)
        log_tie = np.maximum(log_tie + change[:, size], _SMALLEST_LOG_TIE)
    return theta, log_tie, MAX_STEPS


def task_scores(cells: Cells, fitted: Fit) -> Floats:
    """(T, S + 1) gradient of each task's log-likelihood by the abilities and log ν."""
    size, tasks = len(cells.strategies), len(cells.tasks)
    gap = fitted.theta[cells.first] - fitted.theta[cells.second]
    won, lost, tied = _chances(gap, np.log(fitted.tie_strength or 0.0))
    surplus = (cells.win - cells.loss - cells.total * (won - lost)) / 2
    scores = np.zeros((tasks, size + 1))
    np.add.at(scores, (cells.task, cells.first), surplus)
    np.add.at(scores, (cells.task, cells.second), -surplus)
    np.add.at(scores, (cells.task, np.full(len(gap), size)), cells.tie - cells.total * tied)
    return scores


def _chances(gap: Floats, log_tie: Floats | float) -> tuple[Floats, Floats, Floats]:
    largest = np.maximum(np.abs(gap) / 2, log_tie)
    win, loss, tie = np.exp(gap / 2 - largest), np.exp(-gap / 2 - largest), np.exp(log_tie - largest)
    total = win + loss + tie
    return win / total, loss / total, tie / total


def _derivatives(
    wins: Floats, ties: Floats, theta: Floats, log_tie: Floats, l2: float
) -> tuple[Floats, Floats]:
    """(B, S+1) gradient and (B, S+1, S+1) information in (θ, log ν)."""
    size = theta.shape[1]
    gap = theta[:, :, None] - theta[:, None, :]
    won, lost, tied = _chances(gap, log_tie[:, None, None])
    games = wins + wins.swapaxes(1, 2) + ties
    gradient = np.zeros((len(theta), size + 1))
    gradient[:, :size] = (wins - wins.swapaxes(1, 2) - games * (won - lost)).sum(axis=2) / 2 - 2 * l2 * theta
    gradient[:, size] = (ties - games * tied).sum(axis=(1, 2)) / 2
    # Variance of (won - lost)/2, of the tie, and their covariance, summed over the games of each pair.
    weight = games * (won + lost - (won - lost) ** 2) / 4
    cross = (-games * tied * (won - lost) / 2).sum(axis=2)
    information = np.zeros((len(theta), size + 1, size + 1))
    information[:, :size, :size] = -weight
    diagonal = np.arange(size)
    information[:, diagonal, diagonal] += weight.sum(axis=2) + 2 * l2
    information[:, :size, size] = information[:, size, :size] = cross
    information[:, size, size] = (games * tied * (1 - tied)).sum(axis=(1, 2)) / 2 + 1e-12
    return gradient, information
