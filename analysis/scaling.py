"""How much skill more tokens buy: Elo per 1,000 tokens, from strategy to strategy, with what is known of it.

Elo has no natural zero, so a strategy's own Elo per 1,000 tokens depends on where the zero was put. What
does not depend on it is a *step* from one strategy to another: so many Elo more for so many tokens more.
Both ends of a step were measured on the same tasks, so gain and price are correlated; the influences of the
tasks on all Elo and token averages give their joint covariance, and the interval of the ratio is Fieller's
(Fieller 1954, JRSS B 16:175), which has no limit where the extra tokens may be 0.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.arrays import Floats, Ints
from analysis.intervals import p_above, t_quantile
from analysis.options import Options
from analysis.ranking import Ranking

Assessment = Literal["worth it", "diminishing", "not worth it", "cannot tell yet"]


@dataclass(frozen=True, kw_only=True)
class Points:
    """Tokens and Elo of S strategies, measured on the same T tasks."""

    strategies: tuple[str, ...]
    tokens: Floats
    """(S,) average tokens per trial; NaN where unknown."""
    elo: Floats
    """(S,) Elo; NaN where unknown."""
    tokens_influence: Floats
    """(T, S) how far each task moved the average of tokens."""
    elo_influence: Floats | None
    """(T, S) how far each task moved Elo; None where no standard error exists."""
    group: Ints
    """(S,) between strategies of different groups the penalty alone sets the distance: nothing is
    concluded."""
    n_tasks: int
    degrees: int

    @property
    def by_tokens(self) -> list[int]:
        """Strategies whose tokens and Elo are known, the cheapest first."""
        known = np.flatnonzero(np.isfinite(self.tokens) & np.isfinite(self.elo))
        return sorted(known.tolist(), key=lambda index: (self.tokens[index], self.elo[index]))


@dataclass(frozen=True, kw_only=True)
class Step:
    """From one strategy to another."""

    gain_elo: float
    extra_ktokens: float
    """Thousands of tokens per trial."""
    covariance: Floats | None
    """(2, 2) of gain and extra tokens."""
    n_tasks: int
    degrees: int

    @property
    def elo_per_1k(self) -> float | None:
        """Elo per extra 1,000 tokens; None where there are no extra tokens to divide by."""
        return self.gain_elo / self.extra_ktokens if self.extra_ktokens > 0 else None

    def limits(self, level: float) -> tuple[float, float] | None:
        """Fieller's limits of `elo_per_1k`; infinite where the extra tokens may be 0, None where unknown."""
        if self.covariance is None or self.elo_per_1k is None:
            return None
        quantile = t_quantile(level, self.degrees) ** 2
        a = self.extra_ktokens**2 - quantile * self.covariance[1, 1]
        b = self.gain_elo * self.extra_ktokens - quantile * self.covariance[0, 1]
        c = self.gain_elo**2 - quantile * self.covariance[0, 0]
        if a <= 0:
            return -math.inf, math.inf
        half = math.sqrt(max(0.0, b * b - a * c))
        return (b - half) / a, (b + half) / a

    def p_above(self, threshold: float) -> float | None:
        """Confidence that the step buys more than `threshold` Elo per extra 1,000 tokens."""
        error = self._error(threshold)
        return None if not error else p_above(self._net(threshold), error, self.degrees)

    def assessment(self, threshold: float, level: float) -> Assessment:
        """What to say of the step: nothing unless the confidence reaches `level`."""
        above, gains = self.p_above(threshold), self.p_above(0)
        if above is None or 1 - level < above < level:
            return "cannot tell yet"
        if above >= level:
            return "worth it"
        return "diminishing" if gains is not None and gains >= level else "not worth it"

    def more_tasks(self, threshold: float, level: float) -> int | None:
        """About how many more tasks would settle the assessment, if the estimates stay as they are."""
        error, net = self._error(threshold), self._net(threshold)
        if not error or net == 0:
            return None
        needed = self.n_tasks * (t_quantile(2 * level - 1, self.degrees) * error / net) ** 2
        return max(0, math.ceil(needed - self.n_tasks)) if needed < 1e9 else None

    def _net(self, threshold: float) -> float:
        """Elo beyond what the extra tokens had to buy."""
        return self.gain_elo - threshold * self.extra_ktokens

    def _error(self, threshold: float) -> float | None:
        if self.covariance is None:
            return None
        direction = np.array([1, -threshold])
        return math.sqrt(max(0.0, float(direction @ self.covariance @ direction)))


def points(ranking: Ranking, tokens: Floats, weights: Floats) -> Points:
    """Put Elo and tokens side by side.

    Args:
        ranking: its tasks and strategies are the rows and columns of `tokens`.
        tokens: (T, S) tokens per trial of each task, averaged over its repeats; NaN where unknown.
        weights: (T,) how much each task counts.
    """
    known = np.isfinite(tokens)
    share = np.where(known, weights[:, None], 0)
    total = share.sum(axis=0)
    share = share / np.where(total > 0, total, np.nan)
    mean = np.where(total > 0, np.nansum(share * np.where(known, tokens, 0), axis=0), np.nan)
    return Points(
        strategies=ranking.strategies,
        tokens=mean,
        elo=ranking.elo,
        tokens_influence=np.where(known, share * (tokens - mean), 0),
        elo_influence=ranking.influence,
        group=ranking.group,
        n_tasks=ranking.n_tasks,
        degrees=ranking.degrees,
    )


def step(points: Points, source: int, target: int) -> Step:
    """The step between two strategies whose tokens and Elo are known."""
    covariance = None
    if points.elo_influence is not None and points.group[source] == points.group[target]:
        moved = np.column_stack(
            [
                points.elo_influence[:, target] - points.elo_influence[:, source],
                (points.tokens_influence[:, target] - points.tokens_influence[:, source]) / 1000,
            ]
        )
        covariance = points.n_tasks / (points.n_tasks - 1) * moved.T @ moved
    return Step(
        gain_elo=float(points.elo[target] - points.elo[source]),
        extra_ktokens=float(points.tokens[target] - points.tokens[source]) / 1000,
        covariance=covariance,
        n_tasks=points.n_tasks,
        degrees=points.degrees,
    )


def order_depends_on_zero(points: Points) -> bool:
    """Whether the order by Elo per 1,000 tokens changes when another strategy is put at Elo 1000."""
    known = [index for index in points.by_tokens if points.tokens[index] > 0]
    elo, tokens = points.elo[known], points.tokens[known]
    orders = {
        tuple(np.argsort(-(elo - zero) / tokens, kind="stable").tolist()) for zero in (0.0, *(elo - 1000))
    }
    return len(orders) > 1


def recommended(points: Points, options: Options) -> int | None:
    """The strategy to use: starting from the cheapest, the last one to which a step still passes the
    threshold.

    Each step starts at the last strategy that passed, so the result has the highest Elo net of what its
    tokens had to buy.
    """
    chosen = None
    for index in points.by_tokens:
        if chosen is None:
            chosen = index
            continue
        candidate = step(points, chosen, index)
        if candidate.gain_elo > 0 and candidate.gain_elo >= options.threshold * candidate.extra_ktokens:
            chosen = index
    return chosen
