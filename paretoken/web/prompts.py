"""What a call was asked: as it is stored, or made again from strategy or judge and task, as the worker made it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from db import browse
from db.connection import Connection
from db.reader import Row
from workers.context import stored_judge
from workers.judges import draw_of
from workers.kinds import KindInvalid
from workers.strategies import TaskView, strategy

Messages = Sequence[Mapping[str, Any]]


def messages(connection: Connection, *, run_id: str, job: int) -> Messages | None:
    """The messages of one call; None where they are not known, or the run has no such call."""
    found = browse.job(connection, run_id=run_id, job=job)
    if found is None:
        return None
    if found["judging"] is not None:
        return _judges(connection, found)
    view = browse.trial(connection, run_id=run_id, trial=found["trial"], cut=0, cut_of_many=0)
    return None if view is None else of_trial(found, openings(connection, view.trial))


def openings(connection: Connection, trial: Row) -> Sequence[Messages]:
    """What the calls of a trial's round 1 were asked, by sample; nothing where that is not known."""
    view = _task_view(connection, trial)
    try:
        return [call.messages for call in strategy(trial["kind"], trial["params"]).opening(view)]
    except KindInvalid:
        # A ledger that was imported says nothing of prompts.
        return []


def of_trial(job: Row, opening: Sequence[Messages]) -> Messages | None:
    """What a trial's job was asked: with the job stands what came after round 1."""
    if job["request"] is not None:
        asked: Messages = job["request"]["messages"]
        return asked
    return opening[job["sample"] - 1] if job["round"] == 1 and job["sample"] <= len(opening) else None


def message_text(message: Mapping[str, Any]) -> str:
    """A chat message's content as text, and the calls of tools that it holds."""
    content, calls = message.get("content"), message.get("tool_calls")
    parts = [content if isinstance(content, str) else content and json.dumps(content, ensure_ascii=False)]
    parts += [calls and json.dumps(calls, ensure_ascii=False, indent=2)]
    return "\n".join(part for part in parts if part)


def _judges(connection: Connection, job: Row) -> Messages | None:
    asked = browse.question(connection, judging=job["judging"])
    sections = {} if asked is None else {each["name"]: each for each in asked["experiment"].get("judges", [])}
    if asked is None or asked["judge"] not in sections:
        return None
    judge = stored_judge(sections[asked["judge"]])
    draw = draw_of(
        seed=asked["experiment"]["seed"],
        task_id=asked["task_id"],
        repeat=asked["repeat"],
        judge=asked["judge"],
    )
    shown = judge.showings(len(asked["answers"]), draw)[job["sample"] - 1]
    return judge.ask(_task_view(connection, asked), [asked["answers"][place] for place in shown]).messages


def _task_view(connection: Connection, task: Row) -> TaskView:
    return TaskView(
        task_id=task["task_id"],
        goal=task["goal"],
        category=task["category"],
        files=browse.task_files(connection, task["files"]),
    )
