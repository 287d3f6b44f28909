"""The OpenAI wire format: what is read from a request, and the shapes of what goes back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FINGERPRINT = "simulated"
STREAM_PIECES = 16


@dataclass(frozen=True, kw_only=True)
class ApiError:
    """An error body and its status."""

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        return dump(
            {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}
        )


class Refused(Exception):
    """Ends the handling of one request with `error`. It never leaves the server."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class _Message(BaseModel):
    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(str(part.get("text", "")) for part in self.content)
        return self.content or ""


class _StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    """The fields of a chat completion request that the simulator acts on. `n` is ignored, as many do."""

    model_config = ConfigDict(frozen=True, extra="allow")

    model: str
    messages: list[_Message] = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    seed: int | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """All messages, one after the other."""
        return "\n".join(message.text for message in self.messages)

    @property
    def output_limit(self) -> int | None:
        """Most output tokens, reasoning included."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def wants_json(self) -> bool:
        return self.response_format is not None and self.response_format.get("type") in (
            "json_object",
            "json_schema",
        )

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


def read_request(body: bytes) -> ChatRequest:
    """Raises `Refused` (400) for anything that is no chat completion request."""
    try:
        return ChatRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        param = ".".join(str(part) for part in first["loc"]) or None
        message = f"{param or 'The body'}: {first['msg']}"
        raise Refused(ApiError(status=400, message=message, param=param)) from error


def completion(
    *,
    response_id: str,
    created: int,
    model: str,
    content: str,
    finish_reason: str,
    usage: Mapping[str, Any],
    tool_calls: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The body of an answered request."""
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if tool_calls:
        message |= {"content": content or None, "tool_calls": list(tool_calls)}
    return {
        "id": response_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "system_fingerprint": FINGERPRINT,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}],
        "usage": usage,
    }


def stream_events(body: Mapping[str, Any], *, include_usage: bool) -> list[bytes]:
    """A completion as server-sent events. Usage, where asked for, comes last with empty `choices`."""
    shared = {key: body[key] for key in ("id", "created", "model", "system_fingerprint")}
    shared["object"] = "chat.completion.chunk"
    if include_usage:
        shared["usage"] = None
    chunks = [
        {**shared, "choices": [chunk]} for choice in body["choices"] for chunk in _choice_chunks(choice)
    ]
    if include_usage and "usage" in body:
        chunks.append({**shared, "choices": [], "usage": body["usage"]})
    return [*(event(chunk) for chunk in chunks), b"data: [DONE]\n\n"]


def _choice_chunks(choice: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = choice["message"]["content"] or ""
    size = max(1, -(-len(content) // STREAM_PIECES))
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": content[at : at + size]} for at in range(0, len(content), size)]
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": index, "function": function}]})
        arguments = {"arguments": call["function"]["arguments"]}
        deltas.append({"tool_calls": [{"index": index, "function": arguments}]})
    return [
        *({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas),
        {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]},
    ]


def event(data: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + dump(data) + b"\n\n"


def dump(data: Any) -> bytes:
    """Compact JSON as UTF-8."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
