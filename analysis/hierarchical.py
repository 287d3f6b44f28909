r"""Strategy-by-task effects: how much a strategy's ability changes from task to task.

Unit u (a task or a category) has the abilities $\theta_u = \mu + \text{effects}_u$, where the effects of the
strategies are independent normal with one standard deviation σ. Where only differences can be seen they live
in the S - 1 contrasts; where the level can be seen too (right or wrong), the units' difficulty is a further
normal effect, common to all strategies. In orthonormal coordinates both are independent: $\beta_u \sim N(m,
D^2)$.

The marginal likelihood of (m, D²) has no closed form. Each unit's posterior is approximated at its mode
(Laplace), draws from that approximation are re-weighted to the exact one (importance sampling), and the
weighted draws give the likelihood's slope by Fisher's identity in the form that stays exact as σ goes to 0,
with the draw written as m + D ε. Steps are scored with the information of the linearised model and taken in
the variance, where EM would stall near 0. The same normal numbers are used throughout, so there is one fixed
point. Laplace alone is biased (0.70 for a true σ of 0.80).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, ndtri

from analysis.arrays import Floats, Ints
from analysis.bradley_terry import ELO_PER_THETA, fit_batch
from analysis.likelihoods import Likelihood

_START_SD = 0.5
_SMALLEST_SD = 0.01
"""Below this an effect is as good as absent."""
_ROUNDS = 60
_TOLERANCE = 1e-3
_DRAWS_IN_ALL = 100_000
_CHUNK = 500


@dataclass(frozen=True, kw_only=True)
class Hierarchical:
    """A fitted model of S strategies on U units; logits throughout."""

    mu: Floats
    """(S,) mean abilities, with mean 0."""
    mu_se: Floats
    sigma: float
    """SD of the effects of strategy by unit."""
    sigma_low: float
    sigma_high: float
    level: float | None
    """Mean logit of being right over the strategies; None where only differences can be seen."""
    difficulty_sd: float | None
    """SD of the units' difficulty, the strategies' common effect."""
    abilities: Floats
    """(U, S) each unit's abilities, shrunk towards `mu`, with mean 0."""
    abilities_sd: Floats
    population: Floats
    """(S,) abilities on the scale of mean win shares, see `population_averaged`."""
    log_likelihood: float
    rounds: int
    converged: bool


@dataclass(frozen=True, kw_only=True)
class _State:
    """Where the search stands: the parameters, and the modes of the last draws."""

    m: Floats
    sd: Floats
    modes: Floats


@dataclass(frozen=True, kw_only=True)
class _Draws:
    """Draws from each unit's posterior."""

    beta: Floats
    """(U, M, d) the draws."""
    weight: Floats
    """(U, M) their weights, which sum to 1 in each unit."""
    slope: Floats
    """(U, M, d) gradient of the log-likelihood at the draws."""
    seen: Floats
    """(U, d, d) what each unit tells of m: the information of the evidence, less what its effects blur."""
    log_likelihood: float
    """Of the parameters that they were made for."""


def fit_hierarchical(likelihood: Likelihood, *, level: float = 0.95, seed: int = 0) -> Hierarchical:
    """Maximise the marginal likelihood.

    Args:
        likelihood: evidence that can tell effects from noise; `identification` refuses what cannot.
        level: of σ's interval.
        seed: of the draws.
    """
    units, size = likelihood.shape
    basis, group = _coordinates(size, has_level=likelihood.has_level)
    count = max(32, min(128, 2 * (_DRAWS_IN_ALL // (2 * units))))
    half = np.random.default_rng(seed).standard_normal((units, count // 2, basis.shape[1]))
    normal = np.concatenate([half, -half], axis=1)
    state = _State(
        m=np.zeros(basis.shape[1]),
        sd=np.full(group.max() + 1, _START_SD),
        modes=np.zeros((units, basis.shape[1])),
    )
    converged, rounds = False, 0
    while not converged and rounds < _ROUNDS:
        rounds += 1
        state, draws = _drawn(likelihood, basis, group, state, normal)
        moved = _stepped(draws, group, state)
        change = max(np.abs(moved.m - state.m).max(), np.abs(moved.sd - state.sd).max())
        state, converged = moved, bool(change < _TOLERANCE)
    state, draws = _drawn(likelihood, basis, group, state, normal)
    found = _result(draws, basis, group, state, level)
    return replace(found, rounds=rounds, converged=converged)


def population_averaged(mu: Floats, spread: Floats, *, level: float | None) -> Floats:
    """(S,) abilities whose Bradley-Terry model has the mean win shares of the hierarchical one.

    Effects of tasks make mean win shares less extreme than those between `mu`, so this scale is narrower. It
    is the scale of the one-stage Elo.

    Args:
        mu: (S,) mean abilities.
        spread: SD of a difference of two abilities, or with a `level`, of one ability, difficulty included.
        level: mean logit where outcomes are right or wrong; a win share then counts ties as half.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    weights = weights / weights.sum()
    if level is None:
        gap = mu[:, None, None] - mu[None, :, None] + spread[..., None] * nodes
        share = expit(gap) @ weights
    else:
        right = expit(level + mu[:, None] + spread[:, None] * nodes) @ weights
        share = 0.5 + (right[:, None] - right[None, :]) / 2
    np.fill_diagonal(share, 0)
    theta, _ = fit_batch(share[None], 0.0)
    return np.asarray(theta[0])


def _coordinates(size: int, *, has_level: bool) -> tuple[Floats, Ints]:
    """(S, d) orthonormal basis, contrasts first, and the number of each coordinate's standard deviation."""
    square = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, : size - 1]]))[0]
    contrasts, mean = square[:, 1:], np.full((size, 1), size**-0.5)
    if not has_level:
        return contrasts, np.zeros(size - 1, dtype=np.int64)
    return np.hstack([contrasts, mean]), np.array([0] * (size - 1) + [1])


def _drawn(
    likelihood: Likelihood, basis: Floats, group: Ints, state: _State, normal: Floats
) -> tuple[_State, _Draws]:
    """The state with its modes, and draws around them."""
    modes, evidence, precision = _modes(likelihood, basis, group, state)
    # precision = L L', so L'^-1 z has the inverse of the precision as its covariance.
    root = np.linalg.inv(np.linalg.cholesky(precision))
    beta = modes[:, None, :] + normal @ root
    log_weight, slope = np.empty(normal.shape[:2]), np.empty(normal.shape)
    for start in range(0, len(beta), _CHUNK):
        part = slice(start, start + _CHUNK)
        log_weight[part], gradient = likelihood.log_density(beta[part] @ basis.T, start)
        slope[part] = gradient @ basis
    sd = state.sd[group]
    log_weight += (normal**2).sum(axis=2) / 2 - (((beta - state.m) / sd) ** 2).sum(axis=2) / 2
    log_weight += np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)[:, None] - np.log(sd).sum()
    largest = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - largest)
    total = weight.sum(axis=1, keepdims=True)
    draws = _Draws(
        beta=beta,
        weight=weight / total,
        slope=slope,
        seen=evidence - evidence @ np.linalg.solve(precision, evidence),
        log_likelihood=float((largest + np.log(total / normal.shape[1])).sum()),
    )
    return replace(state, modes=modes), draws


def _modes(
    likelihood: Likelihood, basis: Floats, group: Ints, state: _State
) -> tuple[Floats, Floats, Floats]:
    """(U, d) posterior modes by Newton, (U, d, d) information of the evidence there, and with the prior's."""
    prior = state.sd[group] ** -2.0
    modes = state.modes
    for _ in range(50):
        gradient, information = likelihood.derivatives(modes @ basis.T)
        evidence = basis.T @ information @ basis
        slope = gradient @ basis - (modes - state.m) * prior
        change = np.clip(np.linalg.solve(evidence + np.diag(prior), slope[..., None])[..., 0], -1, 1)
        modes = modes + change
        if np.abs(change).max() < 1e-3:
            break
    return modes, evidence, evidence + np.diag(prior)


def _stepped(draws: _Draws, group: Ints, state: _State) -> _State:
    """Parameters after one scoring step in (m, D²)."""
    size = len(state.m)
    slope, covariance = _scores(draws, group, state).sum(axis=0), _step_size(draws, group)
    variance = state.sd**2
    moved = variance + covariance[size:, size:] @ slope[size:]
    moved = np.clip(moved, variance / 6, variance * 4)
    step = np.clip(covariance[:size, :size] @ slope[:size], -1, 1)
    return replace(state, m=state.m + step, sd=np.maximum(np.sqrt(moved), _SMALLEST_SD))


def _scores(draws: _Draws, group: Ints, state: _State) -> Floats:
    """(U, d + G) derivative of each unit's log-likelihood by (m, D²)."""
    by_m = np.einsum("um,umk->uk", draws.weight, draws.slope)
    pull = np.einsum("um,umk->uk", draws.weight, draws.slope * (draws.beta - state.m))
    return np.hstack([by_m, pull @ np.eye(len(state.sd))[group] / (2 * state.sd**2)])


def _step_size(draws: _Draws, group: Ints) -> Floats:
    """(d + G, d + G) inverse information of the linearised model in (m, D²); too small for standard
    errors."""
    size, sds = draws.seen.shape[1], int(group.max()) + 1
    information = np.zeros((size + sds, size + sds))
    information[:size, :size] = draws.seen.sum(axis=0)
    squared = (draws.seen**2).sum(axis=0) / 2
    member = np.eye(sds)[group]
    information[size:, size:] = member.T @ squared @ member
    return np.linalg.pinv(information, hermitian=True)


def _result(draws: _Draws, basis: Floats, group: Ints, state: _State, level: float) -> Hierarchical:
    size, sd, weight = len(basis), state.sd, draws.weight
    # Outer products of the units' scores (Berndt, Hall, Hall & Hausman 1974, Ann. Econ. Soc. Meas. 3:653).
    scores = _scores(draws, group, state)
    covariance = np.linalg.pinv(scores.T @ scores, hermitian=True)
    contrasts = size - 1
    mu = basis[:, :contrasts] @ state.m[:contrasts]
    spread = basis[:, :contrasts] @ covariance[:contrasts, :contrasts] @ basis[:, :contrasts].T
    mean = np.einsum("um,umk->uk", weight, draws.beta)[:, :contrasts]
    centred = draws.beta[..., :contrasts] - mean[:, None, :]
    second = np.einsum("um,umi,umj->uij", weight, centred, centred, optimize=True)
    abilities_sd = np.sqrt(
        np.einsum("si,uij,sj->us", basis[:, :contrasts], second, basis[:, :contrasts], optimize=True)
    )
    low, high = _sd_interval(float(sd[0]), float(np.sqrt(covariance[len(state.m), len(state.m)])), level)
    has_level = len(sd) > 1
    centre = float(state.m[-1] * size**-0.5) if has_level else None
    return Hierarchical(
        mu=mu,
        mu_se=np.sqrt(np.diag(spread)),
        sigma=float(sd[0]),
        sigma_low=low,
        sigma_high=high,
        level=centre,
        difficulty_sd=float(np.sqrt(max(0.0, sd[1] ** 2 - sd[0] ** 2) / size)) if has_level else None,
        abilities=mean @ basis[:, :contrasts].T,
        abilities_sd=abilities_sd,
        population=population_averaged(mu, _spread(size, sd), level=centre),
        log_likelihood=draws.log_likelihood,
        rounds=0,
        converged=False,
    )


def _spread(size: int, sd: Floats) -> Floats:
    """SDs as `population_averaged` takes them."""
    if len(sd) == 1:
        return np.full((size, size), np.sqrt(2) * sd[0])
    return np.full(size, np.sqrt((sd[0] ** 2 * (size - 1) + sd[1] ** 2) / size))


def _sd_interval(sd: float, variance_se: float, level: float) -> tuple[float, float]:
    """On the log scale, or on the variance's own scale from 0 on where it may be 0."""
    reach = float(ndtri((1 + level) / 2)) * variance_se
    if reach < sd**2:
        ratio = np.exp(reach / (2 * sd**2))
        return float(sd / ratio), float(sd * ratio)
    return 0.0, float(np.sqrt(sd**2 + reach))


def elo_scale(theta: Floats) -> Floats:
    """Logits with mean 0 as Elo with mean 1000."""
    return np.asarray(1000 + ELO_PER_THETA * theta)
