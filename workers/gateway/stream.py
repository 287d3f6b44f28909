"""A streamed answer, folded into the body that the same call would have got without streaming."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from workers.gateway.body import parse_json
from workers.gateway.completion import text_of
from workers.gateway.errors import AnswerLost
from workers.gateway.transport import MAX_BODY_BYTES

_LAST_WAIT_S = 0.1
"""For the end of the body after `[DONE]`, without which the connection cannot be used again."""


class StreamedBody:
    """Takes chunks in, gives one completion object out.

    A stream that is over without a finish reason becomes an error object: what it said is dropped, the usage
    it may have reported is kept.
    """

    def __init__(self) -> None:
        self.first_content_at: float | None = None
        """`time.perf_counter()` when the first text or tool call came."""
        self._id: object = None
        self._texts: list[str] = []
        self._tool_calls: dict[object, dict[str, Any]] = {}
        self._finish_reason: object = None
        self._usage: Mapping[str, Any] | None = None
        self._error: object = None
        self._done = False

    async def read(self, response: httpx2.Response) -> None:
        """Read to `[DONE]` or the end. Raises `CallFailed`, unless all that counts had come before."""
        response.headers["content-type"] = "text/event-stream"
        try:
            async with asyncio.timeout(None) as last_wait:
                async for event in httpx2.EventSource(response, max_event_size=MAX_BODY_BYTES):
                    self._take(event.data)
                    if self._done:
                        last_wait.reschedule(asyncio.get_running_loop().time() + _LAST_WAIT_S)
        except (ValueError, httpx2.SSEError):
            self._error = {"message": "a chunk of the stream is not JSON"}
        except TimeoutError:
            pass  # the end of the body did not follow `[DONE]`: the connection is closed instead of kept
        except AnswerLost:
            if not self._done and (self._finish_reason is None or self._usage is None):
                raise

    def _take(self, data: str) -> None:
        if data.startswith("[DONE]"):
            self._done = True
        elif data.strip() and not self._done:
            self.add(parse_json(data))

    def add(self, chunk: object) -> None:
        """One chunk. Usage counts wherever it stands, and the last one wins."""
        if not isinstance(chunk, Mapping):
            return
        self._id = self._id or chunk.get("id")
        self._error = self._error or chunk.get("error")
        self._note_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and choice.get("index") in (None, 0):
                self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        self._error = self._error or choice.get("error")
        self._note_usage(choice.get("usage"))  # Moonshot puts it here
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return
        text = text_of(delta.get("content")) or text_of(delta.get("refusal"))
        calls = delta.get("tool_calls")
        if text or calls:
            self.first_content_at = self.first_content_at or time.perf_counter()
        self._texts.append(text)
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                self._add_tool_call(call)

    def _add_tool_call(self, delta: Mapping[str, Any]) -> None:
        """Name and arguments of a tool call come in pieces, told apart by `index`."""
        call = self._tool_calls.setdefault(
            str(delta.get("index")),
            {"id": None, "type": "function", "function": {"name": "", "arguments": ""}},
        )
        call["id"] = delta.get("id") or call["id"]
        function = delta.get("function")
        pieces = function if isinstance(function, Mapping) else {}
        for key in ("name", "arguments"):
            if isinstance(piece := pieces.get(key), str):
                call["function"][key] += piece

    def _note_usage(self, usage: object) -> None:
        if isinstance(usage, Mapping) and usage:
            self._usage = usage

    def content(self) -> bytes:
        """The completion object as JSON."""
        body: dict[str, Any] = {"id": self._id, "usage": self._usage}
        if self._error:
            body["error"] = self._error
        elif self._finish_reason is None:
            body["error"] = {"message": "the stream ended before its finish_reason"}
        else:
            message = {"content": "".join(self._texts), "tool_calls": list(self._tool_calls.values())}
            body["choices"] = [{"message": message, "finish_reason": self._finish_reason}]
        return json.dumps(body).encode()


def is_event_stream(content_type: str) -> bool:
    """Whether an answer to a streaming request is a stream; some gateways ignore the wish."""
    media_type = content_type.partition(";")[0].strip().lower()
    return not media_type.endswith("json") and media_type != "text/html"
