"""How a response goes over the wire: as plain data first, so that every fault is one small case."""

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from aiohttp import web

from paretoken.simulator.faults import Fault
from paretoken.simulator.wire import ApiError, ChatRequest, dump, event, stream_events

JSON = "application/json"
SLOW_PIECES = 10
_HTML = b"<!DOCTYPE html><html><body><h1>Welcome</h1><p>Simulated proxy page.</p></body></html>"
_PLAIN = b"simulated upstream is warming up"
_KEEP_ALIVE = b": keep-alive\n\n"


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One response: its pieces, and what happens to the connection after them."""

    pieces: tuple[bytes, ...]
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    """Before anything is sent."""
    gap_s: float = 0.0
    """Between two pieces."""
    ending: Literal["complete", "close_later", "close", "reset", "silence"] = "complete"


def deliver_error(error: ApiError) -> Delivery:
    """An error in OpenAI's shape."""
    return Delivery(pieces=(error.body(),), status=error.status, headers=error.headers)


def deliver(
    completion: Mapping[str, Any], *, request: ChatRequest, fault: Fault | None, latency_s: float
) -> Delivery:
    """The response to a request, spoilt by `fault` if there is one."""
    if fault is not None and fault.error is not None:
        return _deliver_status(fault, fault.error)
    kind = fault.kind if fault else None
    body = _spoil_body(completion, kind)
    if request.stream:
        # A quarter of the latency passes before the first event, the rest between the events.
        events = tuple(stream_events(body, include_usage=request.include_usage))
        delivery = Delivery(
            pieces=events,
            content_type="text/event-stream",
            wait_s=latency_s / 4,
            gap_s=latency_s * 0.75 / len(events),
        )
    else:
        delivery = Delivery(pieces=(dump(body),), wait_s=latency_s)
    return delivery if fault is None else _spoil_delivery(delivery, fault)


def _deliver_status(fault: Fault, error: ApiError) -> Delivery:
    error = replace(error, status=fault.status or error.status, headers=fault.headers)
    if fault.body is None:
        return deliver_error(error)
    body = fault.body.encode() if isinstance(fault.body, str) else dump(fault.body)
    return replace(deliver_error(error), pieces=(body,))


def _spoil_body(completion: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    body = dict(completion)
    match kind:
        case "missing_usage":
            del body["usage"]
        case "null_usage":
            body["usage"] = None
        case "empty_choices":
            body["choices"] = []
        case "empty_content":
            choice = completion["choices"][0]
            message = {"role": "assistant", "content": "", "refusal": None}
            body["choices"] = [{**choice, "message": message, "finish_reason": "length"}]
            details = {"reasoning_tokens": body["usage"]["completion_tokens"]}
            body["usage"] = {**body["usage"], "completion_tokens_details": details}
    return body


def _spoil_delivery(delivery: Delivery, fault: Fault) -> Delivery:  # noqa: PLR0911  one return a kind
    pieces = delivery.pieces
    unanswered = replace(delivery, pieces=(), wait_s=delivery.wait_s if fault.served else 0.0)
    match fault.kind:
        case "timeout" | "timeout_after_serving":
            return replace(unanswered, ending="silence")
        case "reset" | "reset_after_serving":
            return replace(unanswered, ending="reset")
        case "close":
            return replace(unanswered, ending="close")
        case "close_after_reply":
            return replace(delivery, ending="close_later")
        case "reset_mid_body":
            return replace(delivery, pieces=_first_half(pieces), ending="reset")
        case "truncated_stream":
            return replace(delivery, pieces=pieces[: len(pieces) // 2])
        case "slow_body":
            slow = pieces if len(pieces) > 1 else _split(pieces[0], SLOW_PIECES)
            return replace(delivery, pieces=slow, gap_s=fault.duration_s / len(slow))
        case "keep_alive_comments":
            gap_s = fault.duration_s / SLOW_PIECES
            return replace(delivery, pieces=(_KEEP_ALIVE,) * SLOW_PIECES + pieces, gap_s=gap_s)
        case "html":
            return Delivery(pieces=(_HTML,), content_type="text/html")
        case "plain_string":
            return Delivery(pieces=(_PLAIN,), content_type="text/plain")
        case "error_with_200":
            error = {"error": {"message": "Simulated upstream error.", "code": 502}, "choices": None}
            streamed = delivery.content_type != JSON
            return replace(delivery, pieces=(event(error) if streamed else dump(error),), wait_s=0.0)
        case "malformed_json":
            whole = pieces[0].rstrip()
            return replace(delivery, pieces=(whole[: len(whole) * 2 // 3] + b"\n\n",))
    return delivery


def _first_half(pieces: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return pieces[: len(pieces) // 2] if len(pieces) > 1 else (pieces[0][: len(pieces[0]) // 2],)


def _split(body: bytes, count: int) -> tuple[bytes, ...]:
    size = max(1, -(-len(body) // count))
    return tuple(body[at : at + size] for at in range(0, len(body), size))


async def send(request: web.Request, delivery: Delivery, done: Callable[[], None]) -> web.StreamResponse:
    """Send `delivery`, and call `done` once, just before its last piece.

    Whoever has seen a whole response therefore finds what `done` recorded. It is also called when the
    client goes away earlier: what a gateway has begun to generate, it bills.
    """
    response = web.StreamResponse(status=delivery.status, headers=delivery.headers)
    response.content_type = delivery.content_type
    try:
        if delivery.wait_s:
            await asyncio.sleep(delivery.wait_s)
        for piece in delivery.pieces[:-1]:
            if not response.prepared:
                await response.prepare(request)
            await response.write(piece)
            await asyncio.sleep(delivery.gap_s)
    finally:
        done()
    if len(delivery.pieces) == 1 and delivery.ending != "reset":
        response = web.Response(
            body=delivery.pieces[0],
            status=delivery.status,
            headers=delivery.headers,
            content_type=delivery.content_type,
        )
        await response.prepare(request)
    elif delivery.pieces:
        await response.prepare(request)
        await response.write(delivery.pieces[-1])
    await _end(request, response, delivery)
    return response


async def _end(request: web.Request, response: web.StreamResponse, delivery: Delivery) -> None:
    transport = request.transport
    if delivery.ending == "silence":
        await asyncio.Event().wait()  # until the client goes: the server then cancels this handler
    if delivery.ending in ("complete", "close_later"):
        await response.write_eof()
    if transport is None or delivery.ending == "complete":
        return
    if delivery.ending == "reset":
        # Lingering for no time makes the kernel send RST instead of FIN.
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
    else:
        transport.close()
