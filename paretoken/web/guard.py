"""Who may ask, and how: GET and HEAD only, with the token where one is needed; and the headers of every answer."""

import hashlib
import hmac
import secrets
from http import HTTPStatus
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paretoken.web.rendering import page

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # What models answered stays out of caches of proxies and browsers.
    "Cache-Control": "no-store",
}
_OPEN_TO_ALL = ("/healthz", "/static/style.css", "/static/icon.svg")
_COOKIE = "paretoken"
_TITLES = {
    HTTPStatus.BAD_REQUEST: "This address cannot be used",
    HTTPStatus.UNAUTHORIZED: "A token is needed",
    HTTPStatus.NOT_FOUND: "This is not here",
    HTTPStatus.METHOD_NOT_ALLOWED: "Pages can only be read",
    HTTPStatus.SERVICE_UNAVAILABLE: "Not now",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Something went wrong here",
}
_COOKIE_S = 30 * 86_400


class Headers:
    """Puts the headers on every answer, also on refusals and errors; a page may have its own instead."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sent)


class Guard:
    """Lets through what reads and, where there is a token, what brings it: as a cookie, or as a Bearer header.

    `?token=` gives the cookie and leads to the same page without it, so that the token stays in no history.
    """

    def __init__(self, app: ASGIApp, *, token: str | None) -> None:
        self._app = app
        self._token = token
        # What browsers keep is not the token itself.
        self._cookie = token and hmac.new(token.encode(), b"paretoken serve", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._instead(Request(scope)) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send)

    def _instead(self, request: Request) -> Response | None:
        """What is answered in place of the page; None where the page may answer."""
        if request.method not in ("GET", "HEAD"):
            return refused(HTTPStatus.METHOD_NOT_ALLOWED, "These pages can only be read: GET and HEAD.")
        if self._token is None or request.url.path in _OPEN_TO_ALL:
            return None
        given = request.query_params.get("token")
        if given is not None:
            return self._first_visit(request) if _same(given, self._token) else _no_token()
        return None if self._known(request) else _no_token()

    def _known(self, request: Request) -> bool:
        assert self._token is not None and self._cookie is not None
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return _same(bearer.strip(), self._token)
        return _same(request.cookies.get(_COOKIE, ""), self._cookie)

    def _first_visit(self, request: Request) -> Response:
        rest = urlencode([item for item in request.query_params.multi_items() if item[0] != "token"])
        # Without the slashes at its beginning a path cannot name another server.
        path = "/" + quote(request.url.path.lstrip("/\\"))
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            _COOKIE,
            self._cookie or "",
            max_age=_COOKIE_S,
            httponly=True,
            # A link in a message leads here too: nothing can be changed by following it.
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer


def refused(status: HTTPStatus, said: str) -> Response:
    """A page that says why there is no other."""
    return page("error.html", status=status, title=_TITLES.get(status, status.phrase), said=said)


def _no_token() -> Response:
    answer = refused(
        HTTPStatus.UNAUTHORIZED,
        "These pages need the token that `paretoken serve` was started with: open them once with ?token=… "
        "behind the address, or send it as a Bearer header.",
    )
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _same(given: str, wanted: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())
