"""What the limiter is told and what it answers.

LimiterError
└── LimiterUnavailable    no answer from Redis: wait and ask again, never send without an answer
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Reason = Literal["ok", "requests", "tokens", "concurrency", "cool_down", "stopped"]
Result = Literal["ok", "throttled", "other"]


class LimiterError(Exception):
    """Base of what the limiter raises."""


class LimiterUnavailable(LimiterError):
    """Redis gave no answer. Asking again later is safe: ids make every call of the limiter repeatable."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the gateway allows for one key and model. `None`: no such limit is known."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    """Most calls in flight. `None`: adaptive alone, up to 1024."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value < 1:
                raise ValueError(
                    f"limit {name} = {value}: give a number of at least 1, or leave it out for no limit"
                )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A call that asks for a slot; `Limiter.acquire` says what its fields mean."""

    request_id: str
    tokens: int
    limits: Limits
    lease_s: float

    def __post_init__(self) -> None:
        if self.tokens < 0:
            raise ValueError(f"call {self.request_id}: an estimate of {self.tokens} tokens; give 0 or more")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The answer to a call that asks."""

    granted: bool
    wait_s: float
    """Granted: sleep so long, then send. Refused: nothing is held or charged; do not come back before."""
    reason: Reason
    """What the wait is for; `ok` when there is none."""


STOPPED = Decision(granted=False, wait_s=0.0, reason="stopped")
"""The process stops. What was asked for in vain is given up, or its lease ends by itself."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A call that is over, or is not sent after all."""

    request_id: str
    tokens: int | None
    """What it used; unknown tokens keep the expected ones charged."""
    result: Result | Literal["given_up"]
    cool_down_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LimiterView:
    """A lane as a person sees it."""

    requests_level: float | None
    """Requests that could be sent now; below zero so many hold later slots. `None`: no limit known."""
    tokens_level: float | None
    """The same in tokens."""
    in_flight: int
    """Calls that hold a slot: being served, or waiting for their time."""
    waiting: int
    """Refused calls (one per process where `turn` is used) that were told to come back."""
    concurrency: int
    """Calls in flight allowed now."""
    cool_down_until: datetime | None
    backlog_s: float
    """How long a call that asks now would wait for limits and cool-down."""
    tokens_per_estimated_token: float
    """What calls really use for each token estimated."""
