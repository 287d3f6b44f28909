"""From comparisons to abilities with intervals: where weighting, model and standard errors meet."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analysis import davidson, health
from analysis.arrays import Bools, Floats, Ints
from analysis.bradley_terry import ELO_PER_THETA, Fit, decisive_and_tied, elo, fit, win_matrix
from analysis.comparisons import Cells
from analysis.errors import NotIdentifiedError, OptionError
from analysis.intervals import jackknife_influence, t_quantile, task_influence
from analysis.options import Options
from analysis.weighting import weigh

JACKKNIFE_BELOW = 50
"""With fewer tasks than this the jackknife takes the place of the sandwich, which is too narrow there."""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Abilities of the S strategies that have comparisons, and how sure they are."""

    options: Options
    cells: Cells
    """What was compared, as counted."""
    weighed: Cells
    """The same with the weights and the tie rule that were fitted."""
    fitted: Fit
    influence: Floats | None
    """(T, S) Elo points that each task moved each strategy; None where no standard error exists."""
    degrees: int
    """Degrees of freedom of the t distribution: decisive tasks - 1."""
    left_out: tuple[str, ...]
    """Strategies without any comparison that counts."""
    group: Ints
    """(S,) strategies with the same number are linked by wins; between groups the penalty sets the
    distance."""
    open_above: Bools
    """(S,) never lost to the others: how high it stands is set by the penalty alone."""
    open_below: Bools
    """(S,) never won against the others."""

    @property
    def strategies(self) -> tuple[str, ...]:
        """The S names, in the order of all arrays."""
        return self.cells.strategies

    @property
    def n_tasks(self) -> int:
        """Tasks with comparisons."""
        return self.cells.n_tasks

    @cached_property
    def cells_per_task(self) -> Ints:
        """Pairs of strategies that were compared on each task, for the tasks with any."""
        counts = np.bincount(self.cells.task)
        return counts[counts > 0]

    @property
    def jackknifed(self) -> bool:
        """Whether the influences come from leaving out one task after the other."""
        return self.n_tasks < JACKKNIFE_BELOW

    @cached_property
    def elo(self) -> Floats:
        """(S,) Elo with the mean or the anchor at 1000."""
        return elo(self.fitted.theta, anchor_index(self))

    @cached_property
    def covariance(self) -> Floats | None:
        """(S, S) covariance of Elo (with the anchor, of the differences to it)."""
        size = len(self.strategies)
        if self.options.standard_errors == "plain":
            return _contrast(self) @ self.fitted.bread[:size, :size] @ _contrast(self).T * ELO_PER_THETA**2
        if self.influence is None:
            return None
        return np.asarray(self.n_tasks / (self.n_tasks - 1) * self.influence.T @ self.influence)

    @cached_property
    def standard_errors(self) -> Floats | None:
        """(S,) standard errors of Elo."""
        return None if self.covariance is None else np.sqrt(np.diag(self.covariance))

    def intervals(self) -> tuple[Floats, Floats]:
        """(S,) lower and upper limits; NaN without a standard error, ±inf on an open side."""
        errors = self.standard_errors
        if errors is None:
            nothing = np.full(len(self.strategies), np.nan)
            return nothing, nothing
        reach = t_quantile(self.options.level, self.degrees) * errors
        low, high = self.elo - reach, self.elo + reach
        for i in np.flatnonzero(self.open_above | self.open_below).tolist():
            low[i] = -np.inf if self.open_below[i] else self.elo[i] + self._shift(i, 1)
            high[i] = np.inf if self.open_above[i] else self.elo[i] + self._shift(i, -1)
        return low, high

    def _shift(self, strategy: int, sign: int) -> float:
        level = self.options.level
        return health.spotless_shift(self.weighed, self.fitted.theta, strategy, sign=sign, level=level)


def rank(cells: Cells, options: Options) -> Ranking:
    """Fit the Bradley-Terry model.

    Raises:
        NotIdentifiedError: nothing was compared, or groups of strategies were never compared with each other.
        OptionError: the anchor has no comparisons.
    """
    weighed = weigh(cells, options.weighting)
    compared = health.compared_strategies(weighed)
    if not compared.any():
        raise NotIdentifiedError(_nothing_compared(cells))
    left_out = tuple(name for name, there in zip(cells.strategies, compared, strict=True) if not there)
    if left_out:
        cells, weighed = keep_strategies(cells, compared), keep_strategies(weighed, compared)
    health.refuse_islands(weighed)
    if options.anchor is not None and options.anchor not in cells.strategies:
        raise OptionError(
            f"anchor {options.anchor!r} has no comparisons; known are {', '.join(cells.strategies)}."
        )
    wins = win_matrix(weighed)
    fitted = fit_cells(weighed, options) if options.weighting.ties == "davidson" else fit(wins, options.l2)
    above, below = health.open_sides(wins)
    ranking = Ranking(
        options=options,
        cells=cells,
        weighed=weighed,
        fitted=fitted,
        influence=None,
        degrees=weighed.n_decisive_tasks - 1,
        left_out=left_out,
        group=health.strong_groups(wins),
        open_above=above,
        open_below=below,
    )
    return replace(ranking, influence=_influence(ranking))


def fit_cells(weighed: Cells, options: Options) -> Fit:
    """Fit the model that the tie rule asks for."""
    if options.weighting.ties == "davidson":
        return davidson.fit(*decisive_and_tied(weighed), options.l2)
    return fit(win_matrix(weighed), options.l2)


def anchor_index(ranking: Ranking) -> int | None:
    """Where the anchor stands among the strategies; None for the mean."""
    anchor = ranking.options.anchor
    return None if anchor is None else ranking.strategies.index(anchor)


def keep_strategies(cells: Cells, keep: Bools) -> Cells:
    """The cells between the strategies marked in (S,) `keep`, with the others' names gone."""
    number = np.cumsum(keep) - 1
    rows = keep[cells.first] & keep[cells.second]
    return replace(
        cells,
        strategies=tuple(name for name, kept in zip(cells.strategies, keep, strict=True) if kept),
        task=cells.task[rows],
        first=number[cells.first[rows]],
        second=number[cells.second[rows]],
        win=cells.win[rows],
        loss=cells.loss[rows],
        tie=cells.tie[rows],
        items=cells.items[rows],
    )


def _influence(ranking: Ranking) -> Floats | None:
    if ranking.degrees < 1:
        return None
    rows = (
        jackknife_influence(
            ranking.weighed, ranking.fitted, l2=ranking.options.l2, ties=ranking.options.weighting.ties
        )
        if ranking.jackknifed
        else task_influence(ranking.weighed, ranking.fitted)
    )
    return np.asarray(rows @ _contrast(ranking).T * ELO_PER_THETA)


def _contrast(ranking: Ranking) -> Floats:
    """(S, S) matrix that moves the zero of the abilities to the mean or the anchor."""
    size = len(ranking.strategies)
    anchor = anchor_index(ranking)
    zero = np.full(size, 1 / size) if anchor is None else np.eye(size)[anchor]
    return np.asarray(np.eye(size) - np.outer(np.ones(size), zero))


def _nothing_compared(cells: Cells) -> str:
    if len(cells.strategies) < 2:
        return f"Nothing to compare: only {len(cells.strategies)} strategy has results. Add another one."
    if len(cells.task):
        return "All comparisons are ties, and ties are dropped. Use --ties half, or harder tasks."
    return (
        "No task has results of two strategies. Run more of it, or check that the task ids agree; of an "
        "imported ledger only verdicts are results."
    )
