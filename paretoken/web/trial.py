"""The page of one trial: what each of its calls was asked and answered, round by round, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from db import browse
from db.reader import Row
from db.text import to_database
from paretoken.web import prompts
from paretoken.web.downloads import as_text
from paretoken.web.prompts import message_text
from paretoken.web.rendering import page

CUT = 100_000
"""Characters of one text on the page; the whole one is a download."""
CUT_OF_MANY = 10_000
CUT_OF_PROMPT = 20_000


@dataclass(frozen=True, kw_only=True)
class Round:
    """Calls that did not depend on each other."""

    try_: int
    number: int
    jobs: Sequence[Row]
    """Each with `calls` and `prompt` (None where what it was asked is not known)."""


def trial(request: Request) -> Response:
    """One trial."""
    run_id = to_database(request.path_params["run_id"])
    with request.app.state.pool.connection() as connection:
        view = browse.trial(
            connection, run_id=run_id, trial=request.path_params["trial"], cut=CUT, cut_of_many=CUT_OF_MANY
        )
        if view is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "This run has no such trial.")
        openings = prompts.openings(connection, view.trial)
    own = [job for job in view.jobs if job["judging"] is None]
    for job in own:
        job["prompt"] = [_cut(message) for message in prompts.of_trial(job, openings) or ()]
    judged = [
        judging | {"jobs": [job for job in view.jobs if job["judging"] == judging["id"]]}
        for judging in view.judgings
    ]
    return page(
        "trial.html",
        run_id=request.path_params["run_id"],
        view=view,
        trial=view.trial,
        rounds=_rounds(own),
        judgings=judged,
    )


def prompt(request: Request) -> Response:
    """What one call was asked, as a text to keep."""
    job = request.path_params["job"]
    with request.app.state.pool.connection() as connection:
        asked = prompts.messages(connection, run_id=to_database(request.path_params["run_id"]), job=job)
    if not asked:
        raise HTTPException(HTTPStatus.NOT_FOUND, "What this call was asked is not known.")
    text = "\n\n".join(f"[{message['role']}]\n{message_text(message)}" for message in asked)
    return as_text(text, f"prompt-{job}")


def _rounds(jobs: Sequence[Row]) -> list[Round]:
    places = groupby(jobs, key=lambda job: (job["try"], job["round"]))
    return [Round(try_=try_, number=number, jobs=list(found)) for (try_, number), found in places]


def _cut(message: Mapping[str, Any]) -> dict[str, Any]:
    text = message_text(message)
    return {"role": message["role"], "text": text[:CUT_OF_PROMPT], "cut": len(text) > CUT_OF_PROMPT}
