"""What is written when a call is over: its outcome and what follows for its job, and their form for Postgres."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.usage import UNKNOWN_USAGE, Usage
from db.reader import Row


@dataclass(frozen=True, kw_only=True)
class LaterTurn:
    """A turn of an external agent's run after its first: a row of its own, settled with the call."""

    usage: Usage
    raw_usage: Any = None
    cost_usd: float | None = None
    content: str | None = None


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """The outcome of a call, and what follows for its job."""

    trial: int | None
    job: int
    dispatch_no: int
    attempt: int
    status: str
    """ok, error or unknown"""
    next_state: str
    """ok, pending or failed: the job's state, where the fence still holds"""
    delay_s: float = 0.0
    """next_state = pending: not before so many seconds from now"""
    failures: int = 0
    """Tries that this outcome uses up."""
    throttled: bool = False
    retry_reason: str | None = None
    once: bool = False
    """next_state = pending: only if its trial has not had its one repetition; `failed` otherwise"""
    error: str | None = None
    message: str | None = None
    content: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    usage: Usage = UNKNOWN_USAGE
    raw_usage: Any = None
    cost_usd: float | None = None
    http_status: int | None = None
    response_id: str | None = None
    finish_reason: str | None = None
    latency_ms: int | None = None
    first_byte_ms: int | None = None
    judging: int | None = None
    later_turns: Sequence[LaterTurn] = ()
    """Turns 2, 3, …; what stands above is turn 1, or the whole call."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What an external agent has written; kept if its answer is used."""

    @property
    def whole_cost_usd(self) -> float | None:
        """Of all its turns; None where the cost of one is unknown."""
        costs = [self.cost_usd, *(turn.cost_usd for turn in self.later_turns)]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


_APART = ("trial", "judging", "usage", "raw_usage", "later_turns", "files")
_PLAIN = [name for name in Settlement.__dataclass_fields__ if name not in _APART]


def item_of(settlement: Settlement) -> Row:
    """The settlement as an item of `settle_calls`."""
    row = {name: getattr(settlement, name) for name in _PLAIN}
    row |= vars(settlement.usage)
    row["usage"] = settlement.raw_usage
    row["later_turns"] = [_turn(number, turn) for number, turn in enumerate(settlement.later_turns, start=2)]
    return row


def _turn(number: int, turn: LaterTurn) -> Row:
    return vars(turn.usage) | {
        "turn": number,
        "usage": turn.raw_usage,
        "cost_usd": turn.cost_usd,
        "content": turn.content,
    }


def file_arrays(settlements: Sequence[Settlement]) -> dict[str, Any]:
    """The parameters of `keep_files`."""
    files = [(s.job, s.attempt, name, content) for s in settlements for name, content in s.files.items()]
    return {
        "jobs": [job for job, _, _, _ in files],
        "attempts": [attempt for _, attempt, _, _ in files],
        "names": [name for _, _, name, _ in files],
        "contents": [content for _, _, _, content in files],
    }
