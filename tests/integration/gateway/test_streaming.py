"""Streamed answers on real sockets."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from analysis.usage import UNKNOWN_USAGE, Usage
from tests.integration.gateway.scripted_server import KEY, Exchange, Server, ask, completion
from workers.gateway import Outcome
from workers.gateway.client import Gateway

Serve = Callable[..., Awaitable[Server]]
Connect = Callable[..., Gateway]
RAW_USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
USAGE = Usage(input_tokens=10, output_tokens=3, total_tokens=13)


def event(body: Any) -> str:
    return f"data: {json.dumps(body)}\n\n"


def delta(text: str | None, finish_reason: str | None = None) -> str:
    content = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": content, "finish_reason": finish_reason}
    return event({"id": "r-1", "choices": [choice]})


A, B, STOP = delta("a"), delta("b"), delta(None, "stop")
COST = event({"id": "r-1", "choices": [], "usage": RAW_USAGE})
DONE = "data: [DONE]\n\n"


async def ask_streaming(
    serve: Serve, gateway: Connect, behave: Callable[[Exchange], Awaitable[None]], **options: Any
) -> Outcome:
    server = await serve(behave)
    return await gateway(server.base_url, stream=True, **options).complete(ask())


def sending(
    *events: str, then: Callable[[Exchange], None] | None = None
) -> Callable[[Exchange], Awaitable[None]]:
    async def behave(exchange: Exchange) -> None:
        await exchange.stream(*events, end=then is None)
        if then is not None:
            then(exchange)

    return behave


async def test_usage_is_asked_for_and_read(serve: Serve, gateway: Connect) -> None:
    server = await serve(sending(A, B, STOP, COST, DONE))
    outcome = await gateway(server.base_url, stream=True).complete(ask())
    assert server.received[0].json["stream"] is True
    assert server.received[0].json["stream_options"] == {"include_usage": True}
    assert (outcome.status, outcome.content, outcome.usage) == ("ok", "ab", USAGE)
    assert (outcome.response_id, outcome.finish_reason, outcome.http_status) == ("r-1", "stop", 200)
    assert outcome.first_byte_ms is not None and outcome.latency_ms is not None
    assert outcome.first_byte_ms <= outcome.latency_ms


async def test_connection_is_kept(serve: Serve, gateway: Connect) -> None:
    server = await serve(sending(A, STOP, COST, DONE))
    client = gateway(server.base_url, stream=True)
    for _ in range(3):
        assert (await client.complete(ask())).status == "ok"
    assert server.connections == 1


@pytest.mark.parametrize(
    ("events", "content", "usage"),
    [
        (
            [": keep-alive\n\n", "\n\n", "data:\n\n", A, ": x\n\n", "event: ping\n\n", B, STOP, COST, DONE],
            "ab",
            USAGE,
        ),
        (["id: 1\n", A, "\n\n", B, STOP, COST, DONE], "ab", USAGE),
        ([A, B, STOP, COST], "ab", USAGE),
        ([A, B, STOP, DONE], "ab", UNKNOWN_USAGE),
        ([(A + B)[:30], (A + B)[30:], STOP, COST, DONE], "ab", USAGE),
        ([delta("é漢"), STOP.replace("\n", "\r\n"), COST, DONE], "é漢", USAGE),
        ([A, STOP, COST, DONE, "data: rubbish\n\n"], "a", USAGE),
    ],
    ids=["keep-alives", "ids", "no DONE", "no usage", "split anywhere", "CRLF", "after DONE"],
)
async def test_streams_that_are_used(
    serve: Serve, gateway: Connect, events: list[str], content: str, usage: Usage
) -> None:
    outcome = await ask_streaming(serve, gateway, sending(*events))
    assert (outcome.status, outcome.content, outcome.usage) == ("ok", content, usage)


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        ([A, B], UNKNOWN_USAGE),
        ([A, B, DONE], UNKNOWN_USAGE),
        ([A, B, COST, DONE], USAGE),
        ([A, "data: {broken\n\n", COST, STOP, DONE], UNKNOWN_USAGE),
        ([A, event({"error": {"message": "overloaded"}})], UNKNOWN_USAGE),
        ([": keep-alive\n\n"], UNKNOWN_USAGE),
        ([], UNKNOWN_USAGE),
    ],
    ids=["cut", "cut, DONE", "cut, usage", "broken", "error", "keep-alives alone", "empty"],
)
async def test_streams_that_end_too_soon(
    serve: Serve, gateway: Connect, events: list[str], usage: Usage
) -> None:
    outcome = await ask_streaming(serve, gateway, sending(*events))
    assert (outcome.status, outcome.error, outcome.disposition) == ("error", "bad_response", "retry")
    assert (outcome.content, outcome.usage) == (None, usage)


@pytest.mark.parametrize("close", [Exchange.reset, Exchange.close], ids=["RST", "FIN"])
@pytest.mark.parametrize("events", [[], [A], [A, COST], [A, B, STOP]])
async def test_lost_in_the_middle(
    serve: Serve, gateway: Connect, events: list[str], close: Callable[[Exchange], None]
) -> None:
    outcome = await ask_streaming(serve, gateway, sending(*events, then=close))
    assert (outcome.status, outcome.error, outcome.disposition) == ("unknown", "unknown_outcome", "retry")
    assert (outcome.content, outcome.usage) == (None, UNKNOWN_USAGE)


async def test_lost_after_all_that_counts(serve: Serve, gateway: Connect) -> None:
    outcome = await ask_streaming(serve, gateway, sending(A, STOP, COST, then=Exchange.close))
    assert (outcome.status, outcome.content, outcome.usage) == ("ok", "a", USAGE)


async def test_left_open_after_done(serve: Serve, gateway: Connect) -> None:
    outcome = await ask_streaming(serve, gateway, sending(A, STOP, COST, DONE, then=lambda _exchange: None))
    assert (outcome.status, outcome.content, outcome.usage) == ("ok", "a", USAGE)


async def test_left_open_without_an_end(serve: Serve, gateway: Connect) -> None:
    behave = sending(A, then=lambda _exchange: None)
    outcome = await ask_streaming(serve, gateway, behave, timeout_s=0.2)
    assert (outcome.status, outcome.error, outcome.content) == ("unknown", "timeout", None)
    assert outcome.first_byte_ms is not None


async def test_cancelled_in_mid_stream(serve: Serve, gateway: Connect) -> None:
    server = await serve(sending(A, then=lambda _exchange: None))
    task = asyncio.create_task(gateway(server.base_url, stream=True).complete(ask()))
    await server.arrived.wait()
    task.cancel()
    outcome = await task
    assert (outcome.status, outcome.error, outcome.content) == ("unknown", "cancelled", None)


async def test_gateway_that_does_not_stream(serve: Serve, gateway: Connect) -> None:
    outcome = await ask_streaming(serve, gateway, lambda exchange: exchange.answer(completion()))
    assert (outcome.status, outcome.content, outcome.usage) == ("ok", "4", USAGE)


@pytest.mark.parametrize(
    ("status", "content_type", "body", "error"),
    [
        (200, "text/html", "<html><title>Hello</title>", "bad_response"),
        (200, "text/plain", "hello", "bad_response"),
        (429, "text/event-stream", event({"error": {"message": "slow down"}}), "rate_limit"),
        (401, "application/json", '{"error": {"message": "no"}}', "unauthorized"),
    ],
)
async def test_refusals(
    serve: Serve, gateway: Connect, status: int, content_type: str, body: str, error: str
) -> None:
    outcome = await ask_streaming(
        serve, gateway, lambda exchange: exchange.answer(body, status=status, content_type=content_type)
    )
    assert (outcome.status, outcome.error, outcome.http_status) == ("error", error, status)


async def test_key_spread_over_deltas_goes_nowhere(serve: Serve, gateway: Connect) -> None:
    pieces = [delta(sign) for sign in KEY]
    outcome = await ask_streaming(serve, gateway, sending(*pieces, STOP, COST, DONE))
    assert outcome.content == "[key]"
