"""What a user can choose about an analysis, with one default each."""

from dataclasses import dataclass, field
from typing import Literal

from analysis.buckets import DEFAULT_EDGES
from analysis.errors import OptionError
from analysis.weighting import Weighting


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of an analysis; the same object is used for a run in the database and for files."""

    weighting: Weighting = field(default_factory=Weighting)
    l2: float = 0.01
    """λ of the penalty λ·Σθ²."""
    anchor: str | None = None
    """The strategy at Elo 1000; None puts the mean there."""
    baseline: str | None = None
    """The strategy that gains are measured from; None takes the one with the fewest tokens."""
    threshold: float = 2.0
    """Elo that 1,000 more tokens must buy to be worth it."""
    level: float = 0.95
    """Confidence level of intervals, and how sure an assessment must be."""
    standard_errors: Literal["task", "plain"] = "task"
    """Clustered by task, or as if every comparison were independent."""
    bootstrap: int = 1000
    """How many times the tasks are resampled."""
    buckets: tuple[int, ...] = DEFAULT_EDGES
    """Tokens at which one bucket of trials ends and the next begins."""
    reference_cost_usd: float = 0.07
    """What a task's cost is compared with. It comes from another task set and is no target."""
    hierarchical: bool = False
    """Whether strategy-by-task effects are fitted as well."""
    group: Literal["task", "category"] = "task"
    """Whose effects those are."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.l2 < float("inf"):
            raise OptionError(f"l2 is {self.l2}; it must be 0 or more.")
        if not 0.5 <= self.level < 1:
            raise OptionError(f"level is {self.level}; it must be at least 0.5 and below 1.")
        if self.bootstrap < 0:
            raise OptionError(f"bootstrap is {self.bootstrap}; it must be 0 or more.")
        if self.group not in ("task", "category"):
            raise OptionError(f"group is {self.group!r}; allowed are task and category.")
        if not self.threshold >= 0:
            raise OptionError(f"threshold is {self.threshold}; it must be 0 or more Elo per 1,000 tokens.")
