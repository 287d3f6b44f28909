"""A worker's moves in Postgres: heartbeat, claim, hand back, start calls, settle calls.

Every move is a batch: one item a job, each with its own guard and its own result, in one transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from db.connection import AsyncConnection
from db.queries import SQL
from db.reader import Row
from db.settlement import Settlement, file_arrays, item_of
from db.text import database_json, from_database, to_database


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A job that this worker runs now."""

    job: int
    run: int
    lane: int
    trial: int | None
    task: int
    strategy: int | None
    repeat: int
    try_: int
    round: int
    sample: int
    dispatch_no: int
    attempt: int
    """Calls made before; the next one is `attempt + 1`."""
    failures: int
    throttled_s: float
    """For how long it has been throttled in a row."""
    retry_reason: str | None
    request: Row | None
    """None in round 1, where the strategy's opening makes it, and of a judging."""
    reserve_tokens: int
    reserve_cost_usd: float | None
    proven: bool
    """The gateway has answered for the run's key and model."""
    judging: int | None = None
    """Instead of a trial: the call of a judge."""
    question: "Question | None" = None


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a judging is about."""

    judge: str
    answers: Sequence[str]
    """In the order of the judging; each call shows them, or some, in an order of its own."""


@dataclass(frozen=True, kw_only=True)
class CallStart:
    """A call that is about to be sent."""

    trial: int | None
    job: int
    dispatch_no: int
    attempt: int
    model: str
    key_fingerprint: str
    lease_no: int
    """The worker's lease under which it is to be sent."""
    judging: int | None = None


async def heartbeat(
    connection: AsyncConnection,
    *,
    worker: str,
    lease_s: float,
    lease_no: int,
    in_flight: int,
    waiting: int,
) -> int:
    """Renew the lease on everything the worker holds, and say how busy it is; give the lease's number.

    `lease_no` is the last one's, 0 before the first. The number grows when the lease was over: what was held under the
    one before may have been given away.
    """
    cursor = await connection.execute(
        SQL["heartbeat"],
        {
            "worker": worker,
            "lease_s": lease_s,
            "lease_no": lease_no,
            "in_flight": in_flight,
            "waiting": waiting,
        },
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row["lease_no"])


async def end_worker(connection: AsyncConnection, *, worker: str) -> None:
    await connection.execute(SQL["end_worker"], {"worker": worker})


async def claim(
    connection: AsyncConnection, *, worker: str, shard: Sequence[tuple[int, int]]
) -> list[Claimed]:
    """queued -> running for those pairs (job, dispatch_no) that still hold; the others are dropped.

    Safe to send again: what the worker runs already is given again, so it has to know its jobs.
    """
    cursor = await connection.execute(
        SQL["claim"],
        {
            "worker": worker,
            "jobs": [job for job, _ in shard],
            "dispatch_nos": [number for _, number in shard],
        },
    )
    rows = await cursor.fetchall()
    questions = await _questions(connection, [row["judging"] for row in rows if row["judging"] is not None])
    return [
        Claimed(try_=row.pop("try"), question=questions.get(row["judging"]), **row)
        for row in sorted(rows, key=lambda row: row["job"])
    ]


async def _questions(connection: AsyncConnection, judgings: Sequence[int]) -> Mapping[int, Question]:
    if not judgings:
        return {}
    cursor = await connection.execute(SQL["read_questions"], {"judgings": sorted(set(judgings))})
    return {
        row["judging"]: Question(
            judge=row["judge"], answers=[from_database(answer) for answer in row["answers"]]
        )
        for row in await cursor.fetchall()
    }


async def hand_back(
    connection: AsyncConnection, *, worker: str, jobs: Sequence[tuple[Claimed, float]]
) -> None:
    """running -> pending, not before the given seconds (0: at once)."""
    await connection.execute(
        SQL["hand_back"],
        {
            "worker": worker,
            "jobs": [job.job for job, _ in jobs],
            "dispatch_nos": [job.dispatch_no for job, _ in jobs],
            "delays_s": [delay_s for _, delay_s in jobs],
        },
    )


async def commit(
    connection: AsyncConnection,
    *,
    worker: str,
    starts: Sequence[CallStart],
    settlements: Sequence[Settlement],
) -> tuple[set[tuple[int, int]], list[int]]:
    """One transaction for many calls; give the started (job, dispatch_no) pairs and the trials that became due.

    Safe to send again when the answer to COMMIT was lost: every statement is guarded by what it changes.
    """
    items: list[CallStart | Settlement] = [*starts, *settlements]
    trials, judgings = owners(items)
    jobs = sorted({item.job for item in items})
    started: set[tuple[int, int]] = set()
    due: list[int] = []
    async with connection.pipeline(), connection.transaction():
        await connection.execute(SQL["lock_trials"], {"trials": trials})
        if judgings:
            await connection.execute(SQL["lock_judgings"], {"judgings": judgings})
        await connection.execute(SQL["lock_jobs"], {"jobs": jobs})
        if settlements:
            await connection.execute(
                SQL["settle_calls"],
                {"owner": worker, "items": database_json([item_of(s) for s in settlements])},
            )
            if any(settlement.files for settlement in settlements):
                await connection.execute(SQL["keep_files"], file_arrays(settlements))
            settled, answered = owners(settlements)
            if answered:
                await connection.execute(SQL["mark_judgings_due"], {"judgings": answered})
            marked = await connection.execute(SQL["mark_due"], {"trials": settled})
        if starts:
            await connection.execute(SQL["start_calls"], _start_arrays(worker, starts))
            read = await connection.execute(
                SQL["read_started"],
                {
                    "worker": worker,
                    "jobs": [start.job for start in starts],
                    "dispatch_nos": [start.dispatch_no for start in starts],
                    "attempts": [start.attempt for start in starts],
                },
            )
    # Read after COMMIT: all went out in one piece, so that whoever falls asleep here holds no locks meanwhile.
    if starts:
        started = {(row["job"], row["dispatch_no"]) for row in await read.fetchall()}
    if settlements:
        due = [row["id"] for row in await marked.fetchall()]
    return started, due


def owners(items: Sequence[CallStart | Settlement]) -> tuple[list[int], list[int]]:
    """The trials and the judgings that these calls belong to, each by id."""
    return (
        sorted({item.trial for item in items if item.trial is not None}),
        sorted({item.judging for item in items if item.judging is not None}),
    )


def _start_arrays(worker: str, starts: Sequence[CallStart]) -> dict[str, Any]:
    return {
        "worker": worker,
        "jobs": [start.job for start in starts],
        "dispatch_nos": [start.dispatch_no for start in starts],
        "attempts": [start.attempt for start in starts],
        "models": [start.model for start in starts],
        "key_fingerprints": [start.key_fingerprint for start in starts],
        "lease_nos": [start.lease_no for start in starts],
    }


async def prove_lane(connection: AsyncConnection, *, run: int, lane: int) -> None:
    """The gateway has answered for this key and model: the run's other calls may go."""
    await connection.execute(SQL["prove_lane"], {"run": run, "lane": lane})


async def hold_lane(connection: AsyncConnection, *, lane: int, hold_s: float, reason: str) -> None:
    """Dispatch nothing on this lane for so long."""
    await connection.execute(SQL["hold_lane"], {"lane": lane, "hold_s": hold_s, "reason": reason})


async def pause_run(connection: AsyncConnection, *, run: int, reason: str) -> None:
    """Stop a run with an explanation; calls in flight finish."""
    async with connection.transaction():
        await connection.execute(SQL["pause_run"], {"run": run, "reason": to_database(reason)})
        await connection.execute(SQL["unqueue_run"], {"run": run})
