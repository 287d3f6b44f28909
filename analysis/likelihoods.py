r"""How likely evidence is, given each unit's abilities: the pieces that the hierarchical model is fitted
with.

A unit is a task, or all tasks of a category. Three kinds of evidence need three likelihoods: comparisons that
were read off one ranking, or off the same outcomes, are not independent of each other, and treating them as
if they were finds task effects where there are none.

| evidence | likelihood |
|---|---|
| separate verdicts on pairs | Bernoulli, $\theta_i - \theta_j$ |
| untied rankings | Plackett-Luce (Plackett 1975, JRSS C 24:193) |
| right or wrong | binomial logit, $\theta_s$ |
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from analysis.arrays import Floats, Ints


class Likelihood(Protocol):
    """Evidence on U units and S strategies, log-concave in the abilities."""

    @property
    def shape(self) -> tuple[int, int]:
        """(U, S)."""

    @property
    def has_level(self) -> bool:
        """Whether the common level of all abilities matters, not only their differences."""

    def log_density(self, theta: Floats, start: int) -> tuple[Floats, Floats]:
        """(u, M, S) abilities of the units from `start` on -> (u, M) log-likelihood, (u, M, S) its
        gradient."""

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """(U, S) abilities -> (U, S) gradient and (U, S, S) information (minus the second derivative)."""


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """Separate verdicts on pairs: `wins` of `first` over `second` out of `count`, each (U, P)."""

    strategies: int
    first: Ints
    second: Ints
    wins: Floats
    count: Floats
    has_level: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.wins), self.strategies

    def log_density(self, theta: Floats, start: int) -> tuple[Floats, Floats]:
        units, design = slice(start, start + len(theta)), self._design()
        gap = theta @ design.T
        softplus, chance = _softplus(gap)
        density = _dot(gap, self.wins[units]) - _dot(softplus, self.count[units])
        return density, (self.wins[units, None] - self.count[units, None] * chance) @ design

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        units, size = self.shape
        design = self._design()
        chance = _softplus(theta @ design.T)[1]
        surplus, weight = self.wins - self.count * chance, self.count * chance * (1 - chance)
        outer = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
        return surplus @ design, (weight @ outer).reshape(units, size, size)

    def _design(self) -> Floats:
        """(P, S) which strategies each pair compares."""
        pairs = np.arange(len(self.first))
        design = np.zeros((len(pairs), self.strategies))
        design[pairs, self.first], design[pairs, self.second] = 1, -1
        return design


@dataclass(frozen=True, kw_only=True)
class Rankings:
    """R rankings: `order` (R, K) strategies from the best on, -1 past the end; `unit` (R,) sorted."""

    units: int
    strategies: int
    unit: Ints
    order: Ints
    has_level: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.units, self.strategies

    def log_density(self, theta: Floats, start: int) -> tuple[Floats, Floats]:
        low, high = np.searchsorted(self.unit, [start, start + len(theta)])
        unit, order = self.unit[low:high] - start, self.order[low:high]
        rows, draws = np.arange(len(order)), np.arange(theta.shape[1])[None, :]
        strength = np.exp(theta - theta.max(axis=2, keepdims=True))[unit]
        total, density, gradient = (
            np.zeros(strength.shape[:2]),
            np.zeros(strength.shape[:2]),
            np.zeros_like(strength),
        )
        left = np.zeros_like(strength)
        for place in range(order.shape[1] - 1, -1, -1):
            there = rows[order[:, place] >= 0]
            at = (there[:, None], draws, order[there, place][:, None])
            left[at] = strength[at]
            total[there] += strength[at]
            density[there] += np.log(strength[at] / total[there])
            gradient[at] += 1
            gradient[there] -= left[there] / total[there][..., None]
        return _summed(density, unit, len(theta)), _summed(gradient, unit, len(theta))

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        units, size = self.shape
        rows = np.arange(len(self.order))
        strength = np.exp(theta - theta.max(axis=1, keepdims=True))[self.unit]
        left = np.zeros_like(strength)
        gradient, information = np.zeros_like(strength), np.zeros((len(rows), size, size))
        for place in range(self.order.shape[1] - 1, -1, -1):
            there = self.order[:, place] >= 0
            item = np.where(there, self.order[:, place], 0)
            left[rows, item] += np.where(there, strength[rows, item], 0)
            total = left.sum(axis=1, keepdims=True)
            share = np.where(there[:, None] & (total > 0), left / np.where(total > 0, total, 1), 0)
            gradient[rows, item] += there
            gradient -= share
            information -= share[:, :, None] * share[:, None, :]
            information[:, np.arange(size), np.arange(size)] += share
        return _summed(gradient, self.unit, units), _summed(information, self.unit, units)


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Right or wrong: (U, S) `successes` out of `trials`."""

    successes: Floats
    trials: Floats
    has_level: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        units, size = self.trials.shape
        return units, size

    def log_density(self, theta: Floats, start: int) -> tuple[Floats, Floats]:
        units = slice(start, start + len(theta))
        softplus, chance = _softplus(theta)
        density = _dot(theta, self.successes[units]) - _dot(softplus, self.trials[units])
        return density, self.successes[units, None] - self.trials[units, None] * chance

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        chance = _softplus(theta)[1]
        weight = self.trials * chance * (1 - chance)
        return self.successes - self.trials * chance, weight[:, :, None] * np.eye(theta.shape[1])


def _softplus(x: Floats) -> tuple[Floats, Floats]:
    """log(1 + e^x) and its derivative, without overflow."""
    small = np.exp(-np.abs(x))
    return np.maximum(x, 0) + np.log1p(small), np.where(x > 0, 1.0, small) / (1 + small)


def _dot(values: Floats, weights: Floats) -> Floats:
    """(u, M, P) and (u, P) -> (u, M)."""
    return np.asarray((values @ weights[..., None])[..., 0])


def _summed(values: Floats, unit: Ints, units: int) -> Floats:
    """Sums of (R, …) rows over their units, which are sorted."""
    sums = np.zeros((units, *values.shape[1:]))
    np.add.at(sums, unit, values)
    return sums
