"""The pages' addresses, and what is said where something is wrong."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path

import psycopg
from psycopg_pool import ConnectionPool
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, ExceptionHandler

from db.connection import Connection
from db.errors import UnknownRun
from paretoken.web import downloads, pages, trial
from paretoken.web.guard import Guard, Headers, refused

STATEMENT_S = 10.0
"""No page takes the database longer."""


def build(
    *, pool: ConnectionPool[Connection], reports: Path, hosts: Sequence[str] | None, token: str | None
) -> ASGIApp:
    """The application.

    Args:
        pool: connections that read only; open.
        reports: the folder that holds a folder of files for each run.
        hosts: names under which it answers; None: any.
        token: what every visitor must bring; None: nothing.
    """
    guards = [Middleware(Guard, token=token)]
    if hosts is not None:
        # A page of another site that had its name pointed to this address would be let in by the browser.
        guards.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False))
    app = Starlette(routes=_routes(), middleware=guards, exception_handlers=_HANDLERS)
    app.state.pool, app.state.reports = pool, reports
    # Outside of all that Starlette does, so that an unforeseen error has the headers too.
    return Headers(app)


class Number(Convertor[int]):
    """A number that Postgres and Python both take: of more digits than a bigint is sure to hold there is nothing."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", Number())


def _routes() -> list[Route | Mount]:
    run = "/runs/{run_id}"
    return [
        Route("/", pages.runs),
        Route(run, pages.run),
        Route(f"{run}/trials", pages.trials),
        Route(f"{run}/search", pages.search),
        Route(f"{run}/trials/{{trial:number}}", trial.trial),
        Route(f"{run}/trials/{{trial:number}}/answer.txt", downloads.answer),
        Route(f"{run}/trials/{{trial:number}}/files/{{try:number}}/{{name:path}}", downloads.trial_file),
        Route(f"{run}/calls/{{job:number}}/{{attempt:number}}/{{turn:number}}.txt", downloads.output),
        Route(f"{run}/prompts/{{job:number}}.txt", trial.prompt),
        Route(f"{run}/report", downloads.report),
        Route(f"{run}/tables/{{name}}", downloads.table),
        Route(f"{run}/files/{{name}}", downloads.report_file),
        Route("/healthz", healthz),
        Mount("/static", StaticFiles(directory=str(files("paretoken.web") / "static"))),
    ]


def healthz(request: Request) -> Response:
    """200 when the database answers, else 503."""
    try:
        with request.app.state.pool.connection(timeout=2.0) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error:
        return PlainTextResponse("the database does not answer\n", HTTPStatus.SERVICE_UNAVAILABLE)
    return PlainTextResponse("ok\n")


def _said(request: Request, error: Exception) -> Response:
    """An error in plain words."""
    match error:
        case HTTPException():
            status = HTTPStatus(error.status_code)
            # Starlette's own have no more to say than their name.
            return refused(status, _PLAIN.get(error.detail, error.detail))
        case UnknownRun():
            return refused(HTTPStatus.NOT_FOUND, str(error))
        case psycopg.errors.QueryCanceled():
            said = f"The database took longer than {STATEMENT_S:.0f} s and was stopped. Ask for less."
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, said)
        case psycopg.OperationalError():
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, "The database does not answer. Try again later.")
    return refused(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "This page could not be made; what went wrong stands in the log of `paretoken serve`.",
    )


_PLAIN = {"Not Found": "There is no such page. Begin with the list of runs."}
_HANDLERS: Mapping[type[Exception], ExceptionHandler] = dict.fromkeys(
    (HTTPException, UnknownRun, psycopg.OperationalError, Exception), _said
)
