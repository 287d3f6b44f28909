"""Advancing trials: lease what is due, read what came back, commit what follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from db.connection import AsyncConnection
from db.queries import SQL
from db.text import database_json, unescape_json


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
    repetition: str | None = None
    """What its one automatic repetition was used for."""


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """Where one job of a trial stands."""

    round: int
    sample: int
    state: str
    error: str | None
    message: str | None
    content: str | None
    tool_calls: Sequence[Mapping[str, Any]] | None
    latency_ms: int | None
    total_tokens: int | None
    """Of the attempt that is used, all its turns together; None where one of them is unknown."""
    messages: Sequence[Mapping[str, Any]] | None
    """What it was asked; only of the last round, and not of round 1."""


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


@dataclass(frozen=True, kw_only=True)
class RerunTrial:
    """A trial that begins anew because its answer failed its checks."""

    trial: int
    version: int
    checks: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """A file that a trial's step has written in its folder."""

    trial: int
    version: int
    name: str
    content: bytes


async def lease_due(
    connection: AsyncConnection, *, trials: Sequence[int] | None, most: int, lease_s: float
) -> list[DueTrial]:
    """Lease these due trials, or with None whichever are due and nobody's."""
    cursor = await connection.execute(
        SQL["lease_due_trials"],
        {"trials": None if trials is None else list(trials), "most": most, "lease_s": lease_s},
    )
    return [DueTrial(try_=row.pop("try"), **row) for row in await cursor.fetchall()]


async def hand_back(connection: AsyncConnection, trials: Sequence[DueTrial]) -> None:
    """End the leases of those that have not moved on: they are due, and nobody's."""
    at = {"trials": [one.trial for one in trials], "versions": [one.version for one in trials]}
    await connection.execute(SQL["hand_back_trials"], at)


async def read_replies(connection: AsyncConnection, trials: Sequence[DueTrial]) -> dict[int, list[JobResult]]:
    """Every job of each trial's present try, ordered by round and sample."""
    cursor = await connection.execute(
        SQL["read_replies"],
        {"trials": [trial.trial for trial in trials], "tries": [trial.try_ for trial in trials]},
    )
    found: dict[int, list[JobResult]] = {trial.trial: [] for trial in trials}
    for row in await cursor.fetchall():
        for name in ("content", "tool_calls", "messages"):
            row[name] = unescape_json(row[name])
        found[row.pop("trial")].append(JobResult(**row))
    return found


async def read_files(connection: AsyncConnection, trials: Sequence[DueTrial]) -> dict[int, dict[str, bytes]]:
    """The files that each trial has written in its present try."""
    cursor = await connection.execute(
        SQL["read_trial_files"],
        {"trials": [trial.trial for trial in trials], "tries": [trial.try_ for trial in trials]},
    )
    found: dict[int, dict[str, bytes]] = {trial.trial: {} for trial in trials}
    for row in await cursor.fetchall():
        found[row["trial"]][row["name"]] = row["content"]
    return found


async def commit(
    connection: AsyncConnection,
    *,
    jobs: Sequence[NextJob] = (),
    finished: Sequence[FinishedTrial] = (),
    reruns: Sequence[RerunTrial] = (),
    files: Sequence[WrittenFile] = (),
) -> None:
    """Write what follows for many trials; those that have moved on since are left alone."""
    items: list[NextJob | FinishedTrial | RerunTrial] = [*jobs, *finished, *reruns]
    trials = sorted({item.trial for item in items})
    async with connection.pipeline(), connection.transaction():
        await connection.execute(SQL["lock_trials"], {"trials": trials})
        if files:
            await connection.execute(SQL["add_files"], _file_arrays(files))
        if reruns:
            await connection.execute(
                SQL["rerun_trials"], {"items": database_json([vars(rerun) for rerun in reruns])}
            )
            await connection.execute(SQL["add_openings"], {"trials": [rerun.trial for rerun in reruns]})
        if jobs:
            await connection.execute(SQL["add_rounds"], {"items": database_json([vars(job) for job in jobs])})
        if finished:
            await connection.execute(
                SQL["finish_trials"], {"items": database_json([vars(trial) for trial in finished])}
            )


def _file_arrays(files: Sequence[WrittenFile]) -> dict[str, Any]:
    return {
        "trials": [file.trial for file in files],
        "versions": [file.version for file in files],
        "names": [file.name for file in files],
        "contents": [file.content for file in files],
    }
