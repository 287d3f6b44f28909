"""The faults that can be switched on, and which request gets one.

`KINDS` is the table: what each kind does, and whether the request counts as served (its tokens are billed).
"""

import difflib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, field_validator

from paretoken.errors import InputError
from paretoken.simulator.wire import ApiError, ChatRequest


@dataclass(frozen=True, kw_only=True)
class FaultKind:
    """One row of the table of faults."""

    does: str
    served: bool
    error: ApiError | None = None
    """The error that is sent, where the fault is one; a fault's status, headers and body replace its own."""
    stream_only: bool = False


def _error(
    status: int, code: str, does: str, message: str, *, error_type: str = "invalid_request_error"
) -> FaultKind:
    error = ApiError(status=status, code=code, message=message, type=error_type)
    return FaultKind(does=f"{status} {does}", served=False, error=error)


KINDS: Mapping[str, FaultKind] = {
    # Errors with a status: nothing is served.
    "server_error": _error(
        500, "server_error", "(or the given status)", "The server had an error.", error_type="server_error"
    ),
    "request_timeout": _error(408, "request_timeout", "request time-out", "The request timed out."),
    "conflict": _error(409, "conflict", "conflict", "The resource is locked."),
    "rate_limited": _error(
        429, "rate_limit_exceeded", "too many requests", "Rate limit reached.", error_type="requests"
    ),
    "insufficient_quota": _error(
        429,
        "insufficient_quota",
        "quota used up",
        "You exceeded your current quota, please check your plan and billing details.",
        error_type="insufficient_quota",
    ),
    "spending_limit": _error(
        429,
        "billing_hard_limit_reached",
        "spending limit reached",
        "The spending limit of this key has been reached.",
        error_type="billing_limit",
    ),
    "context_length_exceeded": _error(
        400, "context_length_exceeded", "prompt too long", "This model's maximum context length is exceeded."
    ),
    "invalid_api_key": _error(401, "invalid_api_key", "key refused", "Incorrect API key provided."),
    "payment_required": _error(402, "insufficient_credits", "no credit", "Insufficient credits."),
    "forbidden": _error(
        403,
        "forbidden",
        "forbidden",
        "This key may not use this model.",
        error_type="permission_error",
    ),
    "model_not_found": _error(404, "model_not_found", "no such model", "The model does not exist."),
    # Connections.
    "timeout": FaultKind(does="never answers", served=False),
    "timeout_after_serving": FaultKind(does="serves, then never answers", served=True),
    "reset": FaultKind(does="resets the connection without an answer", served=False),
    "reset_after_serving": FaultKind(does="serves, then resets the connection unanswered", served=True),
    "reset_mid_body": FaultKind(does="serves, sends half of the body, then resets", served=True),
    "close": FaultKind(
        does="closes the connection without an answer, as on a kept-alive connection that ran out",
        served=False,
    ),
    "close_after_reply": FaultKind(
        does="answers, then closes the kept-alive connection without having announced it", served=True
    ),
    "slow_body": FaultKind(does="sends the body in pieces over `duration_s`", served=True),
    "keep_alive_comments": FaultKind(
        does="sends comment lines for `duration_s` before the stream", served=True, stream_only=True
    ),
    # Bodies with status 200 that are no right answer.
    "html": FaultKind(does="200 with an HTML page", served=False),
    "plain_string": FaultKind(does="200 with plain text", served=False),
    "error_with_200": FaultKind(does='200 with {"error": …, "choices": null}', served=False),
    "malformed_json": FaultKind(does="200 with JSON that breaks off", served=True),
    "empty_choices": FaultKind(does="200 with an empty list of choices, and usage", served=True),
    "empty_content": FaultKind(
        does="200 with empty content, all output tokens spent on reasoning", served=True
    ),
    "missing_usage": FaultKind(does="200 without usage", served=True),
    "null_usage": FaultKind(does="200 with usage null", served=True),
    "truncated_stream": FaultKind(
        does="ends half-way without finish_reason, usage and [DONE]", served=True, stream_only=True
    ),
}


class Fault(BaseModel):
    """One switched-on fault, for every request that fits unless `count` or `probability` says less."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    count: int | None = Field(default=None, ge=1)
    """Only the next so many requests that fit."""
    probability: float | None = Field(default=None, gt=0, le=1)
    """Share of the requests that fit, drawn with the simulator's seed."""
    model: str | None = None
    contains: str | None = None
    """Only requests with this text somewhere in their messages."""
    status: int | None = Field(default=None, ge=400, le=599)
    headers: dict[str, str] = Field(default_factory=dict)
    body: JsonValue = None
    """Replaces the error body: JSON, or a string that is sent as it is."""
    duration_s: float = Field(default=1.0, ge=0, le=3600)

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            near = difflib.get_close_matches(kind, KINDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(KINDS)}"
            raise ValueError(f"no such kind of fault {kind!r}: {hint}")
        return kind

    @property
    def served(self) -> bool:
        return KINDS[self.kind].served

    @property
    def error(self) -> ApiError | None:
        return KINDS[self.kind].error

    def fits(self, request: ChatRequest) -> bool:
        return (
            (self.model is None or self.model == request.model)
            and (self.contains is None or self.contains in request.text)
            and (bool(request.stream) or not KINDS[self.kind].stream_only)
        )


_FAULTS = TypeAdapter(list[Fault])


def read_faults(text: str | bytes) -> list[Fault]:
    """Read a JSON list of faults. Raises `InputError`."""
    try:
        return _FAULTS.validate_json(text)
    except ValidationError as error:
        _refuse(error)


def _refuse(error: ValidationError) -> NoReturn:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the text"
    raise InputError(
        f"Faults: {where}: {first['msg']}. "
        'Give a JSON list such as [{"kind": "server_error", "status": 503, "count": 2}].'
    ) from error


class FaultPlan:
    """The faults switched on now; the first that applies to a request is used."""

    def __init__(self, faults: Sequence[Fault], *, seed: int) -> None:
        self._seed = seed
        self.replace(faults)

    def replace(self, faults: Sequence[Fault]) -> None:
        """Switch on these and no others, and start counting and drawing from the beginning."""
        self._faults = list(faults)
        self._left = [fault.count for fault in faults]
        self._rng = random.Random(f"faults {self._seed}")

    def pick(self, request: ChatRequest) -> Fault | None:
        """The fault for this request, if any; uses up one of its count."""
        for index, fault in enumerate(self._faults):
            left = self._left[index]
            if left == 0 or not fault.fits(request):
                continue
            if fault.probability is not None and self._rng.random() >= fault.probability:
                continue
            if left is not None:
                self._left[index] = left - 1
            return fault
        return None

    def listed(self) -> list[dict[str, Any]]:
        """What is switched on, with how many requests each still applies to (`left`)."""
        return [
            {**json.loads(fault.model_dump_json(exclude_defaults=True)), "left": left}
            for fault, left in zip(self._faults, self._left, strict=True)
        ]
