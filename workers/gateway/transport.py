"""HTTP over aiohttp for the SDK, honest about what was sent and bounded in what it reads.

The SDK's own aiohttp transport reports a refused connection and one that the server closed alike, as a
time-out, and reads bodies of any size. Whether a call was paid for hangs on the difference, so this one notes
for each attempt when the request starts to be written: before that, nothing was sent, whatever went wrong.
"""

import time
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace

import aiohttp
import httpx2
from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import ContentEncodingError

from workers.gateway.errors import AnswerLost, AnswerUnreadable, CallFailed, NothingSent

MAX_BODY_BYTES = 8 * 2**20
"""Decoded. The longest real completions are far below a megabyte."""

_KEEP_ALIVE_S = 4.0
"""Shorter than the 5 s after which the quickest gateways close an idle connection."""

_FAILURES = (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError, UnicodeError)
"""`OSError` includes time-outs; `RuntimeError` comes of a closed session, `UnicodeError` of an odd host."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """What is known of one HTTP attempt, whatever becomes of it."""

    sent: bool = False
    """The request began to be written, so that the other side may have got it."""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of the response, names in lower case."""
    headers_at: float | None = None
    """`time.perf_counter()` when the response's headers were there."""


ATTEMPT: ContextVar[Attempt] = ContextVar("ATTEMPT")
"""The attempt that the running task makes."""


async def _note_sending(
    _session: aiohttp.ClientSession,
    context: SimpleNamespace,
    _params: aiohttp.TraceRequestHeadersSentParams,
) -> None:
    context.trace_request_ctx.sent = True


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """One pool of connections. Raises `CallFailed` and nothing else for what the network does.

    `connect_timeout_s` covers waiting for a place in the pool, name resolution, TCP and TLS.
    """

    def __init__(
        self, *, max_connections: int, connect_timeout_s: float, proxy: str | None, tls: bool
    ) -> None:
        self._max_connections = max_connections
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout_s)
        self._proxy = proxy
        # With the certificate authorities that the SDK trusts; reading them takes a tenth of a second.
        self._ssl = httpx2.create_ssl_context() if tls else True
        self._open_session: aiohttp.ClientSession | None = None

    def _session(self) -> aiohttp.ClientSession:
        """Opened late: aiohttp wants the running loop."""
        if self._open_session is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_note_sending)
            self._open_session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._max_connections, keepalive_timeout=_KEEP_ALIVE_S, ssl=self._ssl
                ),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                proxy=self._proxy,
                trace_configs=[trace],
            )
        return self._open_session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        attempt = ATTEMPT.get()
        try:
            response = await self._session().request(
                request.method,
                str(request.url),
                headers=request.headers,
                data=request.content or None,
                allow_redirects=False,
                trace_request_ctx=attempt,
            )
        except _FAILURES as error:
            raise _failure(error, attempt) from None
        attempt.status = response.status
        attempt.headers = {name.lower(): value for name, value in response.headers.items()}
        attempt.headers_at = time.perf_counter()
        # The SDK gets no headers: it would act on redirects, cookies and charsets that nobody vouches for.
        return httpx2.Response(response.status, stream=_Body(response, attempt), request=request)

    async def aclose(self) -> None:
        if self._open_session is not None:
            await self._open_session.close()


class _Body(httpx2.AsyncByteStream):
    """The decoded body, up to `MAX_BODY_BYTES`."""

    def __init__(self, response: aiohttp.ClientResponse, attempt: Attempt) -> None:
        self._response = response
        self._attempt = attempt

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._response.content.iter_any():
                size += len(chunk)
                if size > MAX_BODY_BYTES:
                    raise AnswerUnreadable(f"the body is longer than {MAX_BODY_BYTES >> 20} MB")
                yield chunk
        except _FAILURES as error:
            raise _failure(error, self._attempt) from None

    async def aclose(self) -> None:
        self._response.release()


def _failure(error: Exception, attempt: Attempt) -> CallFailed:
    if not attempt.sent:
        return NothingSent(_never_sent(error))
    if isinstance(error, aiohttp.ClientResponseError):
        return AnswerUnreadable(f"the answer is not HTTP: {error.message}")
    if isinstance(error, HttpProcessingError) or isinstance(error.__cause__, ContentEncodingError):
        return AnswerUnreadable("the answer's body cannot be decoded")
    if attempt.status is not None:
        return AnswerLost("the connection was lost in the middle of the answer")
    return AnswerLost("the connection was lost before the answer came")


def _never_sent(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"the name {error.host} cannot be resolved"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {error.host} is not valid: {error.certificate_error}"
        case aiohttp.ClientSSLError():
            return f"TLS with {error.host} failed: {error.os_error}"
        case aiohttp.ClientConnectorError():
            return f"no connection to {error.host}:{error.port}: {error.os_error}"
        case TimeoutError():
            return "no connection in time"
        case _:
            return f"nothing could be sent: {type(error).__name__}"
