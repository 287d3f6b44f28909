"""The page of one trial: what each of its calls was asked and answered, round by round, side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from db import browse
from db.connection import Connection, Row
from db.queries import SQL
from db.text import to_database
from paretoken.web.downloads import as_text
from paretoken.web.rendering import page

CUT = 100_000
"""Characters of one text on the page; the whole one is a download."""
CUT_OF_MANY = 10_000
CUT_OF_PROMPT = 20_000

Messages = Sequence[Mapping[str, Any]]


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
            raise _no_trial()
        openings = _openings(connection, view.trial)
    own = [job for job in view.jobs if job["judging"] is None]
    for job in own:
        job["prompt"] = [_cut(message) for message in _messages(job, openings) or ()]
    judged = [
        judging | {"jobs": [job for job in view.jobs if job["judging"] == judging["id"]]}
        for judging in view.judgings
    ]
    calls = [call for job in own for call in job["calls"]]
    return page(
        "trial.html",
        run_id=request.path_params["run_id"],
        view=view,
        trial=view.trial,
        rounds=_rounds(own),
        judgings=judged,
        spent=_spent(calls),
    )


def prompt(request: Request) -> Response:
    """What one call was asked, as a text to keep."""
    where = {"run_id": to_database(request.path_params["run_id"]), "job": request.path_params["job"]}
    with request.app.state.pool.connection() as connection:
        job = browse.job(connection, **where)
        view = job and browse.trial(
            connection, run_id=where["run_id"], trial=job["trial"], cut=0, cut_of_many=0
        )
        messages = job and view and _messages(job, _openings(connection, view.trial))
    if not messages:
        raise HTTPException(HTTPStatus.NOT_FOUND, "What this call was asked is not known.")
    return as_text(
        "\n\n".join(f"[{m['role']}]\n{message_text(m)}" for m in messages), f"prompt-{where['job']}"
    )


def _no_trial() -> HTTPException:
    return HTTPException(HTTPStatus.NOT_FOUND, "This run has no such trial.")


def _rounds(jobs: Sequence[Row]) -> list[Round]:
    places = groupby(jobs, key=lambda job: (job["try"], job["round"]))
    return [Round(try_=try_, number=number, jobs=list(found)) for (try_, number), found in places]


def _spent(calls: Sequence[Row]) -> dict[str, Any]:
    """Sums over the calls shown; unknown ones are counted beside them."""
    ended = [call for call in calls if call["status"] != "started"]
    return {
        "calls": len(ended),
        "tokens": sum(call["total_tokens"] or 0 for call in ended),
        "cost_usd": sum(call["cost_usd"] or 0.0 for call in ended),
        "unknown_tokens": sum(call["total_tokens"] is None and call["status"] != "error" for call in ended),
        "unknown_cost": sum(call["cost_usd"] is None and call["status"] != "error" for call in ended),
    }


def _openings(connection: Connection, trial: Row) -> Sequence[Messages]:
    """What the calls of round 1 were asked, by sample: made again from strategy and task, as the worker made it."""
    from workers.kinds import KindInvalid
    from workers.strategies import TaskView, strategy

    hashes = list(trial["files"].values())
    contents = {
        row["sha256"]: row["content"] for row in connection.execute(SQL["read_files"], {"hashes": hashes})
    }
    view = TaskView(
        task_id=trial["task_id"],
        goal=trial["goal"],
        category=trial["category"],
        files={name: contents[sha256].decode("utf-8", "replace") for name, sha256 in trial["files"].items()},
    )
    try:
        return [call.messages for call in strategy(trial["kind"], trial["params"]).opening(view)]
    except KindInvalid:
        # A ledger that was imported says nothing of prompts.
        return []


def _messages(job: Row, openings: Sequence[Messages]) -> Messages | None:
    if job["request"] is not None:
        found: Messages = job["request"]["messages"]
        return found
    return openings[job["sample"] - 1] if job["round"] == 1 and job["sample"] <= len(openings) else None


def _cut(message: Mapping[str, Any]) -> dict[str, Any]:
    text = message_text(message)
    return {"role": message["role"], "text": text[:CUT_OF_PROMPT], "cut": len(text) > CUT_OF_PROMPT}


def message_text(message: Mapping[str, Any]) -> str:
    """A chat message's content as text, and the calls of tools that it holds."""
    content, calls = message.get("content"), message.get("tool_calls")
    parts = [content if isinstance(content, str) else content and json.dumps(content, ensure_ascii=False)]
    parts += [calls and json.dumps(calls, ensure_ascii=False, indent=2)]
    return "\n".join(part for part in parts if part)
