"""Advancing trials: lease what is due, read what came back, commit what follows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from db.connection import AsyncConnection
from db.queries import SQL
from db.text import escape_json, from_database, to_database


@dataclass(frozen=True, kw_only=True)
class DueTrial:
    """A trial whose next step this worker may take, for the version that it saw."""

    trial: int
    run: int
    task: int
    strategy: int
    repeat: int
    try_: int
    version: int


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """Where one job of a trial stands."""

    round: int
    sample: int
    state: str
    error: str | None
    message: str | None
    content: str | None


@dataclass(frozen=True, kw_only=True)
class NextJob:
    """A job of a trial's next round."""

    trial: int
    version: int
    round: int
    sample: int
    model: str
    request: Mapping[str, Any]
    reserve_tokens: int
    reserve_cost_usd: float | None


@dataclass(frozen=True, kw_only=True)
class FinishedTrial:
    """How a trial ends."""

    trial: int
    version: int
    state: str
    reason: str | None = None
    answer: str | None = None
    detail: Mapping[str, Any] | None = None
    confirmed_success: bool | None = None
    checks: Sequence[Mapping[str, Any]] | None = None


async def lease_due(
    connection: AsyncConnection, *, trials: Sequence[int] | None, most: int, lease_s: float
) -> list[DueTrial]:
    """Lease these due trials, or with None whichever are due and nobody's."""
    cursor = await connection.execute(
        SQL["lease_due_trials"],
        {"trials": None if trials is None else list(trials), "most": most, "lease_s": lease_s},
    )
    return [DueTrial(try_=row.pop("try"), **row) for row in await cursor.fetchall()]


async def read_replies(connection: AsyncConnection, trials: Sequence[DueTrial]) -> dict[int, list[JobResult]]:
    """Every job of each trial's present try, ordered by round and sample."""
    cursor = await connection.execute(
        SQL["read_replies"],
        {"trials": [trial.trial for trial in trials], "tries": [trial.try_ for trial in trials]},
    )
    found: dict[int, list[JobResult]] = {trial.trial: [] for trial in trials}
    for row in await cursor.fetchall():
        content = row["content"]
        row["content"] = content if content is None else from_database(content)
        found[row.pop("trial")].append(JobResult(**row))
    return found


async def commit(
    connection: AsyncConnection, *, jobs: Sequence[NextJob], finished: Sequence[FinishedTrial]
) -> None:
    """Write next rounds and answers of many trials; those that have moved on since are left alone."""
    items: list[NextJob | FinishedTrial] = [*jobs, *finished]
    trials = sorted({item.trial for item in items})
    async with connection.pipeline(), connection.transaction():
        await connection.execute(SQL["lock_trials"], {"trials": trials})
        if jobs:
            await connection.execute(
                SQL["add_rounds"], {"items": json.dumps([_job_item(job) for job in jobs])}
            )
        if finished:
            await connection.execute(
                SQL["finish_trials"], {"items": json.dumps([_trial_item(trial) for trial in finished])}
            )


def _job_item(job: NextJob) -> dict[str, Any]:
    return {**vars(job), "request": escape_json(job.request)}


def _trial_item(trial: FinishedTrial) -> dict[str, Any]:
    return {
        **vars(trial),
        "reason": trial.reason and to_database(trial.reason),
        "answer": None if trial.answer is None else to_database(trial.answer),
        "detail": escape_json(trial.detail),
        "checks": escape_json(trial.checks),
    }
