"""Trials that wait for a person, and what the person decides."""

from dataclasses import dataclass
from typing import Any

from db.connection import Connection
from db.queries import SQL
from db.reader import Row
from db.text import unescape_json


@dataclass(frozen=True, kw_only=True)
class ReviewedTrial:
    """A trial in state `review`, with what a person needs to decide."""

    trial: int
    task_id: str
    strategy: str
    repeat: int
    try_: int
    reason: str | None
    goal: str
    reference: Any
    answer: str | None
    checks: list[dict[str, Any]] | None
    last_text: str | None
    """The last text that came from a model, where the trial has no answer."""


def trials_in_review(connection: Connection, *, run: int) -> list[ReviewedTrial]:
    """In the order of tasks and strategies."""
    rows = connection.execute(SQL["trials_in_review"], {"run": run}).fetchall()
    return [_reviewed(row) for row in rows]


def _reviewed(row: Row) -> ReviewedTrial:
    plain: dict[str, Any] = {name: unescape_json(value) for name, value in row.items()}
    return ReviewedTrial(try_=plain.pop("try"), **plain)


def decide(connection: Connection, *, run: int, trial: int, passed: bool) -> bool:
    """Note a person's verdict. False where the trial is not in review, or passes without an answer."""
    note = f"a person decided: {'pass' if passed else 'fail'}"
    row = connection.execute(
        SQL["decide_trial"], {"run": run, "trial": trial, "passed": passed, "note": note}
    ).fetchone()
    return row is not None
