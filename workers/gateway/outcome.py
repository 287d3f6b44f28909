"""What goes into a call and what comes out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from analysis.usage import UNKNOWN_USAGE, Usage


class Disposition(StrEnum):
    """What the engine does next."""

    USED = "used"
    """The content counts."""
    RETRY = "retry"
    """Uses up a try; exponential back-off."""
    RETRY_ONCE = "retry_once"
    """Invalid or truncated output: one repetition."""
    THROTTLED = "throttled"
    """A rate limit: uses up no try, cools all workers down."""
    FAIL = "fail"
    """This job cannot succeed; others can."""
    TRIAL_FAILS = "trial_fails"
    """Tokens were spent and nothing was said: no repetition."""
    PAUSE_RUN = "pause_run"
    """Key, model, address or quota: dooms every job of the run."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One chat completion to ask for."""

    model: str
    messages: Sequence[Mapping[str, Any]]
    max_tokens: int
    temperature: float | None = None
    json_object: bool = False
    """Asks for a JSON object; output that is none is `invalid_output`."""
    json_keys: Sequence[str] = ()
    """Keys that the object must have."""
    seed: int | None = None
    request_id: str
    """Sent as `X-Client-Request-Id`, for example `123:1` (job and attempt)."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the body (tools, …). They win over the others; a value of `None` drops the field."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one HTTP attempt.

    `content`, `tool_calls` and `raw_usage` are as the model and the gateway wrote them, NUL characters and
    lone surrogates included: whoever stores them escapes them. All other texts are single plain lines.
    """

    status: Literal["ok", "error", "unknown"]
    """`unknown`: the request may have been served, and what it used is not known."""
    disposition: Disposition
    error: str | None = None
    """The class: one of `workers.gateway.classify`, or `None` where the status is `ok`."""
    message: str | None = None
    """One line for a person, at most 500 characters, without the key; says what to do where it dooms all."""
    content: str | None = None
    """The text, also of an `invalid_output` or `truncated` answer; never that of a stream cut short."""
    finish_reason: str | None = None
    usage: Usage = UNKNOWN_USAGE
    raw_usage: Mapping[str, Any] | None = None
    """`usage` as it came, if it is an object that JSON can hold and not absurdly big."""
    http_status: int | None = None
    """`None` where no status line arrived."""
    response_id: str | None = None
    latency_ms: int | None = None
    """From the start of the call to its outcome."""
    first_byte_ms: int | None = None
    """From the start to the response's headers; when streaming, to the first content."""
    retry_after_s: float | None = None
    """How long the gateway asked to wait, of any length up to a year."""
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    """The message's tool calls as they came, if they are objects that JSON can hold and not absurdly big."""

    @property
    def whole(self) -> "Outcome":
        """The outcome with the usage of all that was asked for: of one HTTP attempt it is the outcome itself."""
        return self
