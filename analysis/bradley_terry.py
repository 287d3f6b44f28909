r"""The Bradley-Terry model with an L2 penalty.

$P(i \text{ beats } j) = 1 / (1 + e^{\theta_j - \theta_i})$ (Bradley & Terry 1952, Biometrika 39:324).
A tie counts as half a win for both. The penalised log-likelihood
 $\sum_{ij} w_{ij} \log P_{ij} - \lambda \sum_i \theta_i^2$
is strictly concave for $\lambda > 0$ and its maximum has $\sum_i \theta_i = 0$.
Elo is $1000 + 400/\ln 10 \cdot \theta$.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from analysis.arrays import Floats
from analysis.comparisons import Cells
from analysis.errors import NotIdentifiedError

ELO_PER_THETA = 400 / math.log(10)
MAX_STEPS = 200
_TOLERANCE = 1e-10


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fitted Bradley-Terry model of S strategies."""

    theta: Floats
    """(S,) abilities in logits, with mean 0."""
    bread: Floats
    """(S, S) inverse of the penalised information: what turns scores into changes of `theta`."""
    steps: int
    """Newton steps that were needed; `MAX_STEPS` means that it did not converge."""
    largest_gradient: float
    """Largest absolute element of the gradient at `theta`: 0 at the maximum."""
    tie_strength: float | None = None
    """ν of Davidson's model; None where ties are half wins. `bread` then has a last row and column for log
    ν."""

    @property
    def converged(self) -> bool:
        """Whether the maximum was found."""
        return self.steps < MAX_STEPS


def win_matrix(cells: Cells) -> Floats:
    """(S, S) how much the row strategy won over the column strategy, ties as half a win for both."""
    return _pair_sums(cells, cells.win + cells.tie / 2, cells.loss + cells.tie / 2)


def decisive_and_tied(cells: Cells) -> tuple[Floats, Floats]:
    """Two (S, S) matrices: how much the row strategy won over the column strategy, and how much they tied."""
    return _pair_sums(cells, cells.win, cells.loss), _pair_sums(cells, cells.tie, cells.tie)


def fit(wins: Floats, l2: float) -> Fit:
    """Maximise the penalised likelihood by Newton's method.

    Args:
        wins: (S, S) as `win_matrix` gives it.
        l2: the penalty's weight; 0 for maximum likelihood.

    Raises:
        NotIdentifiedError: without penalty, where some strategies never won against the others.
    """
    refuse_unbounded(wins, l2)
    theta, steps = fit_batch(wins[None], l2)
    information, gradient = _derivatives(wins[None], theta, l2)
    largest = float(np.abs(gradient).max(initial=0.0))
    return Fit(theta=theta[0], bread=_inverse(information[0], l2), steps=steps, largest_gradient=largest)


def refuse_unbounded(wins: Floats, l2: float) -> None:
    """Raises `NotIdentifiedError` where without a penalty some differences would be infinite (Ford 1957)."""
    if l2 == 0 and len(wins) > 1 and connected_components(wins > 0, connection="strong")[0] > 1:
        raise NotIdentifiedError(
            "The maximum likelihood is infinite: some strategies never won against the others. Use --l2 0.01."
        )


def fit_batch(wins: Floats, l2: float) -> tuple[Floats, int]:
    """Fit B win matrices at once: (B, S, S) -> abilities (B, S) and the steps that the slowest needed."""
    batch, size, _ = wins.shape
    theta = np.zeros((batch, size))
    scale = max(1.0, float(wins.sum(axis=(1, 2)).max(initial=0.0)))
    for step in range(1, MAX_STEPS + 1):
        information, gradient = _derivatives(wins, theta, l2)
        if np.abs(gradient).max(initial=0.0) < _TOLERANCE * scale:
            return theta, step - 1
        # A constant added to every θ changes no probability: 1/S only keeps the matrix from being singular.
        change = np.linalg.solve(information + 1 / size, gradient[..., None])[..., 0]
        # A full step can overshoot far from the maximum; 2 logits are more than any step near it needs.
        theta = theta + np.clip(change, -2, 2)
        theta -= theta.mean(axis=1, keepdims=True)
    return theta, MAX_STEPS


def task_scores(cells: Cells, fitted: Fit) -> Floats:
    """(T, S) gradient of each task's log-likelihood by the abilities."""
    size, tasks = len(cells.strategies), len(cells.tasks)
    gap = fitted.theta[cells.second] - fitted.theta[cells.first]
    surplus = cells.win + cells.tie / 2 - cells.total / (1 + np.exp(gap))
    scores = np.bincount(cells.task * size + cells.first, surplus, tasks * size)
    scores -= np.bincount(cells.task * size + cells.second, surplus, tasks * size)
    return np.asarray(scores.reshape(tasks, size))


def elo(theta: Floats, anchor: int | None = None) -> Floats:
    """(…, S) abilities -> Elo with its mean, or the strategy `anchor`, at 1000."""
    zero = theta.mean(axis=-1, keepdims=True) if anchor is None else theta[..., [anchor]]
    return np.asarray(1000 + ELO_PER_THETA * (theta - zero))


def expected(theta: Floats) -> Floats:
    """(…, S) abilities -> (…, S, S) probability that the row strategy beats the column strategy."""
    return np.asarray(1 / (1 + np.exp(theta[..., None, :] - theta[..., :, None])))


def _pair_sums(cells: Cells, forward: Floats, backward: Floats) -> Floats:
    size = len(cells.strategies)
    wins = np.bincount(cells.first * size + cells.second, forward, size * size)
    losses = np.bincount(cells.second * size + cells.first, backward, size * size)
    return np.asarray((wins + losses).reshape(size, size), dtype=np.float64)


def _derivatives(wins: Floats, theta: Floats, l2: float) -> tuple[Floats, Floats]:
    games = wins + wins.swapaxes(-1, -2)
    chance = expected(theta)
    gradient = (wins - games * chance).sum(axis=-1) - 2 * l2 * theta
    weight = games * chance * (1 - chance)
    size = theta.shape[-1]
    information = -weight
    information[..., np.arange(size), np.arange(size)] += weight.sum(axis=-1) + 2 * l2
    return information, gradient


def _inverse(information: Floats, l2: float) -> Floats:
    return np.asarray(np.linalg.inv(information) if l2 > 0 else np.linalg.pinv(information, hermitian=True))
