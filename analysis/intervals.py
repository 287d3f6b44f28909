r"""Standard errors and intervals that respect that comparisons on one task depend on each other.

The cluster sandwich (Liang & Zeger 1986, Biometrika 73:13; Cameron & Miller 2015, JHR 50:317): with the
score of task t, $u_t = \sum_{c \in t} (\text{won}_c - w_c p_c)(e_i - e_j)$, and the inverse penalised
information B,

    cov(θ) = T/(T-1) · B (Σ_t u_t u_t') B            (CR1)

Row t of the T × S matrix of B u_t is how much task t moved the estimates: its *influence*. Every standard
error of abilities, of their differences and of anything computed from them comes out of this one matrix.
"""

import numpy as np
from scipy import special

from analysis import bradley_terry, davidson
from analysis.arrays import Floats
from analysis.bradley_terry import Fit
from analysis.comparisons import Cells
from analysis.resampling import refit
from analysis.weighting import Ties


def task_influence(cells: Cells, fitted: Fit) -> Floats:
    """(T, S) how far each task moved each ability, in logits."""
    model = bradley_terry if fitted.tie_strength is None else davidson
    size = len(cells.strategies)
    return np.asarray((model.task_scores(cells, fitted) @ fitted.bread)[:, :size])


def jackknife_influence(cells: Cells, fitted: Fit, *, l2: float, ties: Ties) -> Floats:
    """(T, S) influences from leaving out one task after the other: safer than the sandwich with few tasks.

    Scaled so that the CR1 formula gives the jackknife's (T-1)/T · Σ_t (θ_(t) - θ)(θ_(t) - θ)', with each
    θ_(t) fitted anew (Efron & Stein 1981; CV3 of MacKinnon, Nielsen & Webb 2023, JAE 38:671).
    """
    used = np.unique(cells.task)
    weights = np.ones((len(used), len(cells.tasks)))
    weights[np.arange(len(used)), used] = 0
    left_out = refit(cells, weights, l2=l2, ties=ties)
    influence = np.zeros((len(cells.tasks), len(cells.strategies)))
    influence[used] = (fitted.theta - left_out) * (len(used) - 1) / len(used)
    return influence


def t_quantile(level: float, degrees: int) -> float:
    """How many standard errors a two-sided interval of this level reaches to each side."""
    return float(special.stdtrit(degrees, (1 + level) / 2))


def p_above(estimate: float, standard_error: float, degrees: int) -> float:
    """Confidence that the true value is above 0: the t distribution's share on that side."""
    return float(special.stdtr(degrees, estimate / standard_error))
