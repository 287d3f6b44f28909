"""The few requests that the checks may make, counted and each with a time limit."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from workers.gateway.address import proxy_for
from workers.gateway.body import describe, one_line, parse_json, said_by
from workers.gateway.client import Gateway
from workers.gateway.errors import CallFailed, GatewayConfigError, GatewayRequestError
from workers.gateway.explanation import WHAT_TO_DO
from workers.gateway.outcome import Outcome, Request
from workers.gateway.transport import ATTEMPT, AiohttpTransport, Attempt

MOST_REQUESTS = 10
TINY_TOKENS = 64
"""The most that the tiny request may answer; room for a word after a little reasoning."""

_SHOWN_CHARS = 120


class RequestsUsedUp(Exception):
    """All requests that one checklist may make have been made."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why a request was not answered as it should be."""

    error: str
    """The class, as in `workers.gateway.classify`."""
    detail: str
    """What came back, in one line without the key."""
    is_page: bool = False
    """It was a web page: somebody else than the gateway's interface answered."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What is at a URL that an agent client would call."""

    url: str
    there: bool
    """Something takes such requests, whatever it said to this one."""
    serves: bool
    """It answered with a 2xx."""
    said: str


class Requests:
    """Sends with one key. Every method raises `RequestsUsedUp` instead of an eleventh request."""

    def __init__(self, *, key: str, timeout_s: float) -> None:
        self._key = key
        self._timeout_s = timeout_s
        self.made = 0

    async def models(self, base_url: str) -> list[str] | Problem:
        """Names of the models that the gateway lists."""
        self._count()
        try:
            gateway = self._gateway(base_url)
        except GatewayConfigError as error:
            return Problem(error="config", detail=str(error))
        try:
            return await gateway.models()
        except GatewayRequestError as error:
            return problem_of(error.outcome)
        finally:
            await gateway.close()

    async def complete(
        self, base_url: str, *, model: str, temperature: float | None, stream: bool = False
    ) -> Outcome | Problem:
        """One tiny completion; `Problem` where it has no answer at all."""
        self._count()
        request = Request(
            model=model,
            messages=[{"role": "user", "content": "Reply with the single word: ready"}],
            max_tokens=TINY_TOKENS,
            temperature=temperature,
            request_id=f"doctor:{self.made}",
        )
        try:
            gateway = self._gateway(base_url, stream=stream)
        except GatewayConfigError as error:
            return Problem(error="config", detail=str(error))
        try:
            outcome = await gateway.complete(request)
        finally:
            await gateway.close()
        # A cut answer is an answer: the request asks for few tokens.
        return outcome if outcome.error in (None, "truncated", "empty_output") else problem_of(outcome)

    async def endpoint(self, url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Endpoint:
        """What is there: anything but a missing route or a web page takes such requests."""
        self._count()
        attempt = Attempt()
        ATTEMPT.set(attempt)
        sent = {
            "authorization": f"Bearer {self._key}",
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "gzip, deflate",
        }
        place = httpx2.URL(url)
        transport = AiohttpTransport(
            max_connections=1,
            connect_timeout_s=self._timeout_s,
            proxy=proxy_for(place),
            tls=place.scheme == "https",
        )
        try:
            async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None) as client:
                async with asyncio.timeout(self._timeout_s):
                    answer = await client.post(url, content=json.dumps(body), headers=sent | dict(headers))
        except TimeoutError:
            return _nothing(url, f"no answer within {self._timeout_s:g} s")
        except CallFailed as error:
            return _nothing(url, str(error))
        return _endpoint(url, answer.status_code, answer.content.replace(self._key.encode(), b"[key]"))

    def _gateway(self, base_url: str, *, stream: bool = False) -> Gateway:
        return Gateway(
            base_url=base_url,
            api_key=self._key,
            max_connections=1,
            timeout_s=self._timeout_s,
            connect_timeout_s=self._timeout_s,
            stream=stream,
        )

    def _count(self) -> None:
        if self.made == MOST_REQUESTS:
            raise RequestsUsedUp
        self.made += 1


def problem_of(outcome: Outcome) -> Problem:
    """The outcome without the advice that is meant for a run."""
    error, message = outcome.error or "", outcome.message or ""
    detail = message.removesuffix(WHAT_TO_DO.get(error, "")).rstrip(". ")
    if outcome.retry_after_s is not None:
        detail += f"; it asks to wait {outcome.retry_after_s:g} s"
    # A page with an error status is a proxy's, and says nothing about the path.
    is_page = error == "bad_response" and "an HTML page" in detail
    return Problem(error=error, detail=detail, is_page=is_page)


def _nothing(url: str, said: str) -> Endpoint:
    return Endpoint(url=url, there=False, serves=False, said=said)


def _endpoint(url: str, status: int, content: bytes) -> Endpoint:
    try:
        body = parse_json(content)
    except ValueError:
        return _nothing(url, f"HTTP {status} with {one_line(describe(content), _SHOWN_CHARS)}")
    said = said_by(body)
    told = one_line(said.text, _SHOWN_CHARS)
    # An unknown model is a 404 as well, but one that somebody behind the route has written.
    missing = status in (404, 405, 501) and "model" not in f"{said.code} {said.text}".lower()
    there = isinstance(body, dict) and not missing and not 300 <= status < 400
    return Endpoint(
        url=url,
        there=there,
        serves=there and status < 300,
        said=f"HTTP {status}" + (f": {told}" if told and status >= 300 else ""),
    )
