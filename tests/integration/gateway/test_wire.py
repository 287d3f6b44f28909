"""What goes over the wire, and answers that come back whole."""

import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from analysis.usage import Usage
from tests.integration.gateway.scripted_server import KEY, Exchange, Server, ask, completion
from workers.gateway.client import Gateway
from workers.gateway.errors import GatewayRequestError
from workers.gateway.transport import MAX_BODY_BYTES

Serve = Callable[..., Awaitable[Server]]
Connect = Callable[..., Gateway]
USAGE = Usage(input_tokens=10, output_tokens=3, total_tokens=13)


def answering(body: Any, **options: Any) -> Callable[[Exchange], Awaitable[None]]:
    async def behave(exchange: Exchange) -> None:
        await exchange.answer(body, **options)

    return behave


async def test_request_and_outcome(serve: Serve, gateway: Connect) -> None:
    server = await serve(answering(completion()))
    request = ask(temperature=0.5, seed=7, json_object=False, extra={"top_p": 1})
    outcome = await gateway(server.base_url).complete(request)

    received = server.received[0]
    assert received.line == "POST /api/chat/completions HTTP/1.1"
    assert received.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "2+2?"}],
        "max_tokens": 16,
        "temperature": 0.5,
        "seed": 7,
        "top_p": 1,
    }
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["x-client-request-id"] == "123:1"
    assert (outcome.status, outcome.disposition, outcome.error, outcome.message) == ("ok", "used", None, None)
    assert (outcome.content, outcome.usage, outcome.finish_reason) == ("4", USAGE, "stop")
    assert (outcome.http_status, outcome.response_id, outcome.retry_after_s) == (200, "chatcmpl-1", None)
    assert outcome.latency_ms is not None and outcome.first_byte_ms is not None
    assert 0 <= outcome.first_byte_ms <= outcome.latency_ms


@pytest.mark.parametrize("tail", ["", "/"])
async def test_base_url_is_used_as_given(serve: Serve, gateway: Connect, tail: str) -> None:
    server = await serve(answering(completion()))
    await gateway(f"http://127.0.0.1:{server.port}/a%2Fb/v1{tail}").complete(ask())
    assert server.received[0].line == "POST /a%2Fb/v1/chat/completions HTTP/1.1"


async def test_extra_fields_win_and_none_drops(serve: Serve, gateway: Connect) -> None:
    server = await serve(answering(completion('{"a": 1}')))
    extra = {"max_tokens": None, "max_completion_tokens": 16}
    await gateway(server.base_url).complete(ask(extra=extra, json_object=True))
    body = server.received[0].json
    assert "max_tokens" not in body and body["max_completion_tokens"] == 16
    assert body["response_format"] == {"type": "json_object"}


async def test_lone_surrogates_and_nul_travel_both_ways(serve: Serve, gateway: Connect) -> None:
    server = await serve(answering(completion("a\ud800\0é")))
    messages = [{"role": "user", "content": "b\udfff\0é"}]
    outcome = await gateway(server.base_url).complete(ask(messages=messages))
    assert server.received[0].json["messages"] == messages
    assert outcome.content == "a\ud800\0é"


async def test_nothing_of_other_programs_is_picked_up(
    serve: Serve, gateway: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftovers = {
        "OPENAI_API_KEY": "sk-left-over",
        "OPENAI_ADMIN_KEY": "sk-left-over",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/left-over",
        "OPENAI_ORG_ID": "left-over",
        "OPENAI_PROJECT_ID": "left-over",
        "OPENAI_CUSTOM_HEADERS": "X-Left-Over: left-over\nAuthorization: Bearer left-over",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }
    for name, value in leftovers.items():
        monkeypatch.setenv(name, value)
    server = await serve(answering(completion()))
    assert (await gateway(server.base_url).complete(ask())).status == "ok"
    assert "left-over" not in repr(server.received[0].headers).lower()


async def test_proxy_of_the_environment(
    serve: Serve, gateway: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(answering(completion()))
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await gateway("http://gateway.invalid/api").complete(ask())).status == "ok"
    assert server.received[0].line == "POST http://gateway.invalid/api/chat/completions HTTP/1.1"


async def test_connection_is_kept_and_cookies_are_not(serve: Serve, gateway: Connect) -> None:
    server = await serve(answering(completion(), set_cookie="a=b"))
    client = gateway(server.base_url)
    for _ in range(3):
        assert (await client.complete(ask())).status == "ok"
    assert server.connections == 1
    assert "cookie" not in server.received[-1].headers


@pytest.mark.parametrize(
    ("status", "headers", "error", "disposition", "wait_s"),
    [
        (429, {"retry_after": "90"}, "rate_limit", "throttled", 90),
        (429, {"retry_after_ms": "1500"}, "rate_limit", "throttled", 1.5),
        (429, {"x_ratelimit_reset_requests": "6m0s"}, "rate_limit", "throttled", 360),
        (429, {"retry_after": "198300"}, "rate_limit", "throttled", 198300),
        (
            429,
            {"date": "Sun, 01 Mar 2026 12:00:00 GMT", "retry_after": "Sun, 01 Mar 2026 12:01:05 GMT"},
            "rate_limit",
            "throttled",
            65,
        ),
        (503, {"retry_after": "2.5", "x_ratelimit_reset_requests": "6m"}, "server_error", "retry", 2.5),
        (500, {"x_ratelimit_reset_requests": "6m"}, "server_error", "retry", None),
        (500, {"x_should_retry": "false"}, "server_error", "fail", None),
        (401, {}, "unauthorized", "pause_run", None),
        (404, {}, "not_found", "pause_run", None),
        (307, {"location": "http://127.0.0.1:9/other"}, "redirected", "pause_run", None),
        (302, {"location": "http://[broken"}, "redirected", "pause_run", None),
        (999, {}, "server_error", "retry", None),
    ],
)
async def test_refusals(
    serve: Serve,
    gateway: Connect,
    status: int,
    headers: dict[str, str],
    error: str,
    disposition: str,
    wait_s: float | None,
) -> None:
    server = await serve(answering({"error": {"message": "no"}}, status=status, **headers))
    outcome = await gateway(server.base_url).complete(ask())
    assert (outcome.status, outcome.error, outcome.disposition) == ("error", error, disposition)
    assert (outcome.http_status, outcome.retry_after_s) == (status, wait_s)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"<html><title>Hello</title>", {"content_type": "text/html"}),
        (b'"just a text"', {}),
        (b"just a text", {"content_type": "text/plain; charset=rot13"}),
        (b'{"choices": [', {}),
        (b"", {}),
        (b"\xff\xfe\xfd", {"content_type": "application/json; charset=hex"}),
        (b"not gzip at all", {"content_encoding": "gzip"}),
        (gzip.compress(json.dumps(completion()).encode())[:-30], {"content_encoding": "gzip"}),
        (gzip.compress(b" " * (MAX_BODY_BYTES + 1)), {"content_encoding": "gzip"}),
        (b" " * (MAX_BODY_BYTES + 1), {}),
    ],
    ids=[
        "HTML",
        "string",
        "text",
        "cut JSON",
        "empty",
        "not UTF-8",
        "gzip garbage",
        "cut gzip",
        "gzip bomb",
        "huge",
    ],
)
async def test_bodies_that_are_no_completion(
    serve: Serve, gateway: Connect, body: bytes, headers: dict[str, str]
) -> None:
    server = await serve(answering(body, **headers))
    outcome = await gateway(server.base_url).complete(ask())
    assert (outcome.status, outcome.error, outcome.disposition) == ("error", "bad_response", "retry")
    assert (outcome.http_status, outcome.content) == (200, None)


async def test_gzip_is_read(serve: Serve, gateway: Connect) -> None:
    body = gzip.compress(json.dumps(completion()).encode())
    server = await serve(answering(body, content_encoding="gzip"))
    outcome = await gateway(server.base_url).complete(ask())
    assert (outcome.content, outcome.usage) == ("4", USAGE)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nxx",
    ],
    ids=["SSH", "negative length", "long header", "bad chunk", "unknown coding"],
)
async def test_answers_that_cannot_be_read(serve: Serve, gateway: Connect, raw: bytes) -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.send(raw)
        exchange.close()

    server = await serve(behave)
    outcome = await gateway(server.base_url).complete(ask())
    assert (outcome.status, outcome.error, outcome.disposition) == ("error", "bad_response", "retry")


async def test_key_that_is_echoed_goes_nowhere(serve: Serve, gateway: Connect) -> None:
    server = await serve(answering(completion(f"key: {KEY}", id=KEY)))
    client = gateway(server.base_url)
    assert KEY not in repr(await client.complete(ask())) + repr(client)
    server.behaviour = answering({"error": {"message": f"Incorrect API key: {KEY}"}}, status=401)
    outcome = await client.complete(ask())
    assert KEY not in repr(outcome) and "[key]" in (outcome.message or "")


async def test_models(serve: Serve, gateway: Connect) -> None:
    server = await serve(answering({"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"id": None}, 7]}))
    assert await gateway(server.base_url).models() == ["b", "a"]
    assert server.received[0].line == "GET /api/models HTTP/1.1"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {"error": {"message": f"bad key {KEY}"}}, "unauthorized"),
        (404, "404 page not found", "not_found"),
        (200, "<html>", "bad_response"),
        (200, {"data": None}, "bad_response"),
    ],
)
async def test_models_that_cannot_be_listed(
    serve: Serve, gateway: Connect, status: int, body: Any, error: str
) -> None:
    server = await serve(answering(body, status=status))
    with pytest.raises(GatewayRequestError) as caught:
        await gateway(server.base_url).models()
    assert (caught.value.outcome.error, caught.value.outcome.http_status) == (error, status)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert str(caught.value) and KEY not in str(caught.value)
