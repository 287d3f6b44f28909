"""How much each comparison counts, and what becomes of ties, before a model is fitted."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analysis.arrays import Floats
from analysis.comparisons import Cells
from analysis.errors import OptionError

Weight = Literal["task", "comparison", "ranking"]
Ties = Literal["half", "davidson", "drop"]


@dataclass(frozen=True, kw_only=True)
class Weighting:
    """Which comparisons count how much.

    `task`: the comparisons of a pair on a task are averaged to one share, then each task's shares are scaled
    to the same total; all weights together sum to the number of shares, with ties dropped to the shares'
    decisive mass. `comparison`: each comparison counts 1 (pooled). `ranking`: a comparison out of a ranking
    of k counts 1/(k-1), so that a strategy's weight does not grow with the length of the rankings.
    """

    weight: Weight = "task"
    ties: Ties = "half"
    clip: int | None = None
    """At most this many comparisons of one task count; the others are scaled down evenly."""

    def __post_init__(self) -> None:
        if self.weight not in ("task", "comparison", "ranking"):
            raise OptionError(f"weight is {self.weight!r}; allowed are task, comparison, ranking.")
        if self.ties not in ("half", "davidson", "drop"):
            raise OptionError(f"ties is {self.ties!r}; allowed are half, davidson, drop.")
        if self.clip is not None and self.clip < 1:
            raise OptionError("clip must be at least 1.")
        if self.clip is not None and self.weight == "task":
            raise OptionError(
                "clip has nothing to do where each task counts the same; use weight comparison or ranking."
            )


def weigh(cells: Cells, weighting: Weighting) -> Cells:
    """The same cells with weights in place of counts; cells without any weight are left out."""
    scale = np.ones(len(cells.task))
    if weighting.weight == "task":
        scale = 1 / cells.total
    elif weighting.weight == "ranking":
        scale = 1 / (cells.items - 1)
    tie = np.zeros(len(cells.task)) if weighting.ties == "drop" else cells.tie
    scaled = _take(cells, cells.win * scale, cells.loss * scale, tie * scale)
    if weighting.clip is not None:
        scaled = _per_task(scaled, np.minimum(1, weighting.clip / _task_totals(scaled)))
    if weighting.weight != "task":
        return _per_task(scaled, cells.task_weight)
    return _equalised(scaled)


def _equalised(cells: Cells) -> Cells:
    """Every task gets its author's share of the sum that all shares already have."""
    totals = _task_totals(cells)
    wanted = np.where(np.isfinite(totals), cells.task_weight, 0)
    if not wanted.any():
        return cells
    return _per_task(cells, wanted / wanted.sum() * cells.total.sum() / totals)


def _task_totals(cells: Cells) -> Floats:
    """(T,) weight per task; infinite where there is none, so that it can be divided by."""
    totals = np.bincount(cells.task, cells.total, len(cells.tasks))
    return np.where(totals > 0, totals, np.inf)


def _per_task(cells: Cells, factor: Floats) -> Cells:
    f = factor[cells.task]
    return _take(cells, cells.win * f, cells.loss * f, cells.tie * f)


def _take(cells: Cells, win: Floats, loss: Floats, tie: Floats) -> Cells:
    keep = win + loss + tie > 0
    if keep.all():
        return replace(cells, win=win, loss=loss, tie=tie)
    return replace(
        cells,
        task=cells.task[keep],
        first=cells.first[keep],
        second=cells.second[keep],
        win=win[keep],
        loss=loss[keep],
        tie=tie[keep],
        items=cells.items[keep],
    )
