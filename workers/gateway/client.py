"""The client itself: sends, waits no longer than agreed, and names what became of it."""

import asyncio
import json
import time
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx2
from openai import APIStatusError, AsyncOpenAI, Omit

from workers.gateway import classify
from workers.gateway.address import checked_base_url, checked_key, proxy_for
from workers.gateway.body import describe, parse_json, said_by
from workers.gateway.classify import Verdict
from workers.gateway.completion import read_body
from workers.gateway.errors import AnswerUnreadable, CallFailed, GatewayRequestError, NothingSent
from workers.gateway.explanation import Explainer
from workers.gateway.outcome import Outcome, Request
from workers.gateway.retry_after import retry_after_s
from workers.gateway.stream import StreamedBody, is_event_stream
from workers.gateway.transport import ATTEMPT, AiohttpTransport, Attempt

_FAILURES = (APIStatusError, CallFailed, TimeoutError)


class Gateway:
    """One async client per process and (base URL, key); every call of it in one event loop.

    The base URL is used exactly as given. Of the environment only the machine's network settings count
    (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`), and no proxy stands before a
    loopback address; whatever `OPENAI_*` variables other programs left there is not picked up. Redirects are
    not followed and cookies not kept. `max_connections` should be at least the number of calls in flight:
    waiting for a free connection counts as connecting.

    Raises `GatewayConfigError` for a base URL or key that can never work.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        max_connections: int,
        timeout_s: float = 120,
        connect_timeout_s: float = 10,
        stream: bool = False,
    ) -> None:
        url = checked_base_url(base_url)
        transport = AiohttpTransport(
            max_connections=max_connections,
            connect_timeout_s=connect_timeout_s,
            proxy=proxy_for(url),
            tls=url.scheme == "https",
        )
        self._client = _PlainOpenAI(
            api_key=checked_key(api_key),
            base_url=base_url,
            max_retries=0,
            timeout=None,
            http_client=httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None),
        )
        self._timeout_s = timeout_s
        self._stream = stream
        self._key = api_key.encode()
        self._explainer = Explainer(api_key)

    async def complete(self, request: Request) -> Outcome:
        """Make one HTTP attempt. Whatever the other side does ends in an `Outcome`, nothing is raised for it.

        Cancelling the task ends in an `Outcome` too (`cancelled`: an `error` where certainly nothing was
        sent, else `unknown`), and the task goes on, so that the caller can settle the call; it has to end by
        itself after that.
        """
        attempt = Attempt()
        streamed = StreamedBody() if self._stream else None
        started = time.perf_counter()
        try:
            answer = await self._try(self._send(request, attempt, streamed), attempt)
        except asyncio.CancelledError:
            _go_on()
            answer = _lost(classify.CANCELLED, "the call was stopped from outside", attempt)
        if isinstance(answer, bytes):
            answer = read_body(answer, json_object=request.json_object, json_keys=request.json_keys)
        first_byte_at = streamed.first_content_at if streamed else None
        return self._finish(answer, attempt, started=started, first_byte_at=first_byte_at)

    async def models(self) -> list[str]:
        """Names of the models that the gateway lists. Raises `GatewayRequestError` where it does not."""
        attempt = Attempt()
        started = time.perf_counter()
        answer = await self._try(self._fetch_models(attempt), attempt)
        names = _model_names(answer) if isinstance(answer, bytes) else answer
        if isinstance(names, Outcome):
            raise GatewayRequestError(self._finish(names, attempt, started=started, first_byte_at=None))
        return names

    async def close(self) -> None:
        """Close all connections. No call may follow."""
        await self._client.close()

    async def _send(self, request: Request, attempt: Attempt, streamed: StreamedBody | None) -> bytes:
        ATTEMPT.set(attempt)
        headers = {"X-Client-Request-Id": request.request_id}
        if streamed:
            # Makes the SDK return before the body has been read.
            headers["X-Stainless-Raw-Response"] = "stream"
        response = await self._client.post(
            "/chat/completions",
            content=_request_body(request, stream=self._stream),
            cast_to=httpx2.Response,
            options={"headers": headers},
        )
        try:
            if streamed and is_event_stream(attempt.headers.get("content-type", "")):
                await streamed.read(response)
                return streamed.content()
            return await response.aread()
        finally:
            await response.aclose()

    async def _fetch_models(self, attempt: Attempt) -> bytes:
        ATTEMPT.set(attempt)
        response = await self._client.get("/models", cast_to=httpx2.Response)
        return response.content

    async def _try(self, sending: Awaitable[bytes], attempt: Attempt) -> bytes | Outcome:
        """The body of a 2xx answer without the key in it, or what went wrong instead."""
        try:
            async with asyncio.timeout(self._timeout_s):
                content = await sending
        except _FAILURES as error:
            return self._failed(error, attempt)
        # A gateway that echoes the key must not get it into the database.
        return content.replace(self._key, b"[key]")

    def _failed(self, error: Exception, attempt: Attempt) -> Outcome:
        if isinstance(error, APIStatusError):
            return _refused(error.response.content, attempt)
        if attempt.status is not None and not 200 <= attempt.status < 300:
            return _refused(b"", attempt)
        if isinstance(error, NothingSent):
            return _error(classify.CONNECTION, str(error))
        if isinstance(error, AnswerUnreadable):
            return _error(classify.BAD_RESPONSE, str(error))
        if isinstance(error, TimeoutError):
            return _lost(classify.TIMEOUT, f"no complete answer within {self._timeout_s:g} s", attempt)
        return _lost(classify.UNKNOWN_OUTCOME, str(error), attempt)

    def _finish(
        self, outcome: Outcome, attempt: Attempt, *, started: float, first_byte_at: float | None
    ) -> Outcome:
        """Add what the attempt knows, and the message for a person."""
        finished = time.perf_counter()
        first_byte_at = first_byte_at or (None if self._stream else attempt.headers_at)
        return replace(
            outcome,
            http_status=attempt.status,
            latency_ms=round(1000 * (finished - started)),
            first_byte_ms=None if first_byte_at is None else round(1000 * (first_byte_at - started)),
            message=outcome.error and self._explainer.explain(outcome.error, outcome.message or ""),
            retry_after_s=_retry_after_s(outcome, attempt),
        )


class _PlainOpenAI(AsyncOpenAI):
    """The SDK's client, without the headers from `OPENAI_*` variables and those about the machine."""

    @property
    def default_headers(self) -> dict[str, str | Omit]:
        return {
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "Content-Type": "application/json",
            "User-Agent": self.user_agent,
        }


def _request_body(request: Request, *, stream: bool) -> bytes:
    fields: dict[str, Any] = {
        "model": request.model,
        "messages": request.messages,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "response_format": {"type": "json_object"} if request.json_object else None,
    }
    if stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    fields |= request.extra
    body = {name: value for name, value in fields.items() if value is not None}
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate, quoted from an earlier answer
        return json.dumps(body, separators=(",", ":")).encode()


def _go_on() -> None:
    """Take back the cancellation that was just delivered to this task."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _error(verdict: Verdict, detail: str) -> Outcome:
    return Outcome(status="error", disposition=verdict.disposition, error=verdict.error, message=detail)


def _lost(verdict: Verdict, detail: str, attempt: Attempt) -> Outcome:
    """Unknown, if anything may have been sent; a time-out before that is one of connecting."""
    if attempt.sent:
        return replace(_error(verdict, f"{detail}; the gateway may have served it"), status="unknown")
    if verdict is classify.TIMEOUT:
        verdict = classify.CONNECTION
    return _error(verdict, f"{detail}; nothing had been sent")


def _refused(content: bytes, attempt: Attempt) -> Outcome:
    """The outcome of a status other than 2xx."""
    status = attempt.status or 0
    try:
        said = said_by(parse_json(content))
    except ValueError:
        said = said_by(describe(content))
    location = attempt.headers.get("location")
    detail = f"redirects to {location}" if location else said.text or describe(content)
    verdict = classify.verdict_on(status, said, attempt.headers.get("x-should-retry"))
    return _error(verdict, f"HTTP {status}: {detail}")


def _retry_after_s(outcome: Outcome, attempt: Attempt) -> float | None:
    if outcome.status == "ok" or not attempt.headers:
        return None
    limited = outcome.error == classify.RATE_LIMIT.error
    return retry_after_s(attempt.headers, rate_limited=limited, now=datetime.now(UTC))


def _model_names(content: bytes) -> list[str] | Outcome:
    try:
        body = parse_json(content)
    except ValueError:
        body = None
    entries = body.get("data") if isinstance(body, Mapping) else body
    if not isinstance(entries, list):
        return _error(classify.BAD_RESPONSE, f"HTTP 200 with {describe(content)} instead of a model list")
    names = (entry.get("id") if isinstance(entry, Mapping) else entry for entry in entries)
    return [name for name in names if isinstance(name, str)]
