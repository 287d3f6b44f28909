"""The pages of runs: which there are, how far one is, its trials, and what their outputs hold."""

from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import psycopg
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from db import browse
from db.browse import Filters
from db.connection import Connection
from db.reader import Row
from db.runs import find_run
from db.tables import TRIAL_STATES
from db.text import to_database
from paretoken.description import describe
from paretoken.web import downloads
from paretoken.web.rendering import address, page
from scheduler.progress import progress

PAGE = 50
"""Rows on a page."""
WINDOWS = (5_000, 1_250, 300, 50)
"""Trials whose outputs one search looks through; the next number where the database takes too long for one."""
_MOST_WANTED = 200
_BIGGEST = 2**63 - 1


def runs(request: Request) -> Response:
    """The runs, the newest first."""
    with request.app.state.pool.connection() as connection:
        found = browse.runs(connection, before=_number(request, "before", most=2**31 - 1), most=PAGE + 1)
    more = address(before=found[PAGE - 1]["id"]) if len(found) > PAGE else None
    return page("runs.html", runs=found[:PAGE], more=more)


def run(request: Request) -> Response:
    """How far a run is, its strategies, its files, and where it came from."""
    run_id = to_database(request.path_params["run_id"])
    with request.app.state.pool.connection() as connection:
        row = find_run(connection, run_id)
        seen = progress(connection, run_id)
        strategies = browse.strategies(connection, run=row["id"])
    facts = [line.partition(": ")[::2] for line in describe(seen)]
    return page(
        "run.html",
        run=row,
        seen=seen,
        facts=facts,
        strategies=strategies,
        files=downloads.listed(request.app.state.reports, row["run_id"]),
    )


def trials(request: Request) -> Response:
    """The run's trials in the order of planning, those that the query asks for."""
    asked = request.query_params
    filters = Filters(
        state=_state(request),
        strategy=asked.get("strategy") or None,
        category=asked.get("category") or None,
        task=asked.get("task") or None,
    )
    with request.app.state.pool.connection() as connection:
        row = find_run(connection, to_database(request.path_params["run_id"]))
        found = browse.trials(
            connection, run=row["id"], filters=filters, after=_number(request, "after") or 0, most=PAGE + 1
        )
        choices = browse.choices(connection, run=row["id"])
    return page(
        "trials.html",
        run=row,
        filters=filters,
        states=TRIAL_STATES,
        choices=choices,
        trials=found[:PAGE],
        first=_here(row, **vars(filters)) if _number(request, "after") else None,
        more=_here(row, **vars(filters), after=found[PAGE - 1]["id"]) if len(found) > PAGE else None,
    )


def _here(run: dict[str, Any], **query: Any) -> str:
    return address("runs", run["run_id"], "trials", **query)


def search(request: Request) -> Response:
    """A text in the run's outputs, a window of trials at a time."""
    wanted, state = request.query_params.get("q", "").strip(), _state(request)
    if len(wanted) > _MOST_WANTED:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"Search for at most {_MOST_WANTED} characters.")
    at: dict[str, Any] = {"wanted": wanted, "state": state, "after": _number(request, "after") or 0}
    # What was too much for one page is not tried again by the next.
    most = _number(request, "window") or WINDOWS[0]
    windows = [window for window in WINDOWS if window <= most] or WINDOWS[-1:]
    found: Row | None = None
    matches: Sequence[Row] = ()
    more = None
    with request.app.state.pool.connection() as connection:
        row = find_run(connection, to_database(request.path_params["run_id"]))
        if wanted:
            found, window = _search(connection, windows, run=row["id"], most=PAGE + 1, **at)
            matches, last = _shown_matches(found, window)
            query = {"q": wanted, "state": state, "after": last, "window": window}
            more = last and address("runs", row["run_id"], "search", **query)
    return page(
        "search.html",
        run=row,
        states=TRIAL_STATES,
        state=state,
        wanted=wanted,
        found=found,
        matches=matches,
        more=more,
    )


def _search(connection: Connection, windows: Sequence[int], **at: Any) -> tuple[Row, int]:
    """What is found in the first window that the database gets through in time, and that window."""
    for window in windows[:-1]:
        with suppress(psycopg.errors.QueryCanceled):
            return browse.search(connection, window=window, **at), window
    return browse.search(connection, window=windows[-1], **at), windows[-1]


def _shown_matches(found: Row, window: int) -> tuple[Sequence[Row], int | None]:
    """The matches of a page, and the trial behind which the search goes on; None where it is over.

    The last trial is left to the next page unless all its matches are here, or it alone fills this one.
    """
    matches = found["matches"]
    if len(matches) > PAGE:
        shown = [match for match in matches if match["trial"] != matches[PAGE]["trial"]] or matches[:PAGE]
        return shown, shown[-1]["trial"]
    return matches, found["last_trial"] if found["searched_trials"] == window else None


def _state(request: Request) -> str | None:
    given = request.query_params.get("state") or None
    if given is not None and given not in TRIAL_STATES:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"A trial's state is one of: {', '.join(TRIAL_STATES)}.")
    return given


def _number(request: Request, name: str, *, most: int = _BIGGEST) -> int | None:
    given = request.query_params.get(name)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 20 and int(given) <= most):
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name}: a whole number is wanted in the address.")
    return int(given)
