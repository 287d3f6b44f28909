r"""Standard errors and intervals that respect that comparisons on one task depend on each other.

The cluster sandwich (Liang & Zeger 1986, Biometrika 73:13; Cameron & Miller 2015, JHR 50:317): with the
score of task t, $u_t = \sum_{c \in t} (\text{won}_c - w_c p_c)(e_i - e_j)$, and the inverse penalised
information B,

    cov(θ) = T/(T-1) · B (Σ_t u_t u_t') B            (CR1)

Row t of the T × S matrix of B u_t is how much task t moved the estimates: its *influence*. Every standard
error of abilities, of their differences and of anything computed from them comes out of this one matrix.
"""

import numpy as np
from scipy import stats

from analysis.arrays import Floats, Ints
from analysis.bradley_terry import Fit, fit_batch, win_matrix
from analysis.comparisons import Cells


def task_influence(cells: Cells, fitted: Fit) -> Floats:
    """(T, S) how far each task moved each ability, in logits; its columns sum to 0 without a penalty."""
    size = len(cells.strategies)
    tasks = len(cells.tasks)
    gap = fitted.theta[cells.second] - fitted.theta[cells.first]
    surplus = cells.win + cells.tie / 2 - cells.total / (1 + np.exp(gap))
    scores = np.bincount(cells.task * size + cells.first, surplus, tasks * size)
    scores -= np.bincount(cells.task * size + cells.second, surplus, tasks * size)
    return np.asarray(scores.reshape(tasks, size) @ fitted.bread)


def jackknife_influence(cells: Cells, l2: float, fitted: Fit) -> Floats:
    """(T, S) influences from leaving out one task after the other: safer than the sandwich with few tasks.

    Scaled so that the CR1 formula gives the jackknife's (T-1)/T · Σ_t (θ_(t) - θ)(θ_(t) - θ)', with each
    θ_(t) fitted anew (Efron & Stein 1981; CV3 of MacKinnon, Nielsen & Webb 2023, JAE 38:671).
    """
    used = np.unique(cells.task)
    left_out = leave_one_out(cells, l2)
    influence = np.zeros((len(cells.tasks), len(cells.strategies)))
    influence[used] = (fitted.theta - left_out) * (len(used) - 1) / len(used)
    return influence


def leave_one_out(cells: Cells, l2: float) -> Floats:
    """(tasks with comparisons, S) abilities without each task."""
    whole = win_matrix(cells)
    used = np.unique(cells.task)
    parts = task_win_matrices(cells, used)
    theta, _ = fit_batch(whole - parts, l2)
    return theta


def task_win_matrices(cells: Cells, tasks: Ints) -> Floats:
    """(len(tasks), S, S) win matrix of each task; `tasks` are sorted task numbers."""
    size = len(cells.strategies)
    rows = np.searchsorted(tasks, cells.task)
    shape = len(tasks) * size * size
    wins = np.bincount((rows * size + cells.first) * size + cells.second, cells.win + cells.tie / 2, shape)
    losses = np.bincount((rows * size + cells.second) * size + cells.first, cells.loss + cells.tie / 2, shape)
    return np.asarray((wins + losses).reshape(len(tasks), size, size), dtype=np.float64)


def t_quantile(level: float, degrees: int) -> float:
    """How many standard errors a two-sided interval of this level reaches to each side."""
    return float(stats.t.ppf((1 + level) / 2, degrees))


def p_above(estimate: float, standard_error: float, degrees: int) -> float:
    """Confidence that the true value is above 0: the t distribution's share on that side."""
    return float(stats.t.cdf(estimate / standard_error, degrees))
