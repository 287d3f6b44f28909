"""Judgings: planned when a run's trials are over, leased when their replies are in, finished with verdicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from db.connection import AsyncConnection, Connection
from db.queries import SQL
from db.text import database_json, unescape_json


@dataclass(frozen=True, kw_only=True)
class JudgePlan:
    """What one judge of a run shall be asked, as SQL needs it."""

    judge: str
    kind: str
    model: str
    pairs: bool
    """A question is about two answers of a task and repeat, or about all of them."""
    neighbours: bool
    """Only pairs of strategies that follow each other in the experiment."""
    sample: int | None
    """So many pairs of each task and repeat; None takes all."""
    seed: int
    calls: int | None
    """Calls of one question; None for one call an answer."""
    max_tokens: int
    prompt_bytes: int
    """Of the prompt without task and answers."""
    task_copies: int
    """How often the prompt shows the task; likewise the answers."""
    answer_copies: int
    input_usd: float | None
    """Per token; None without a price."""
    output_usd: float | None


@dataclass(frozen=True, kw_only=True)
class DueJudging:
    """A judging whose replies are in, for the version that was seen."""

    judging: int
    run: int
    task_id: str
    repeat: int
    judge: str
    question: Sequence[int]
    """Ids of the trials whose answers were compared."""
    version: int


@dataclass(frozen=True, kw_only=True)
class JudgeReply:
    """What one call of a judging came to."""

    sample: int
    state: str
    error: str | None
    content: str | None


@dataclass(frozen=True, kw_only=True)
class FinishedJudging:
    """How a judging ends: `ok` with verdicts, or `failed` without one."""

    judging: int
    version: int
    state: str
    readings: Sequence[Mapping[str, Any]]
    """Per call `shown` (trial ids) with `scores` (higher is better) or `problem`."""
    verdicts: Sequence[Mapping[str, Any]]
    """`winner` and `loser` (trial ids), `tie`, `items`."""


def plan_judgings(
    connection: Connection,
    *,
    plans: Callable[[Mapping[str, Any]], Sequence[JudgePlan]],
    frame_bytes: int,
) -> list[int]:
    """Plan the judgings of every run whose trials are over; give these runs.

    Args:
        plans: from a run's stored experiment to its judges.
        frame_bytes: what a prompt puts around one answer at the most.
    """
    runs = [row["id"] for row in connection.execute(SQL["runs_to_judge"]).fetchall()]
    for run in runs:
        with connection.transaction():
            row = connection.execute(SQL["lock_run_to_judge"], {"run": run}).fetchone()
            if row is None:
                continue
            connection.execute(SQL["stage_answers"], {"run": run, "frame_bytes": frame_bytes})
            for plan in plans(row["experiment"]):
                _plan(connection, run, plan)
            connection.execute(SQL["note_judgings"], {"run": run})
        connection.execute("ANALYZE job, judging")
    return runs


def _plan(connection: Connection, run: int, plan: JudgePlan) -> None:
    values = vars(plan) | {"run": run}
    connection.execute(SQL["stage_pairs" if plan.pairs else "stage_groups"], values)
    connection.execute("ANALYZE staged_answer, staged_question")
    connection.execute(SQL["insert_judgings"], values)
    # Without fresh statistics the next join is planned as if nothing had been asked yet.
    connection.execute("ANALYZE judging")
    connection.execute(SQL["insert_judge_jobs"], values)
    connection.execute(SQL["drop_staged_question"])


async def lease_due(connection: AsyncConnection, *, most: int, lease_s: float) -> list[DueJudging]:
    """Lease judgings whose replies are in and that nobody holds."""
    cursor = await connection.execute(SQL["lease_due_judgings"], {"most": most, "lease_s": lease_s})
    return [DueJudging(**row) for row in await cursor.fetchall()]


async def hand_back(connection: AsyncConnection, judgings: Sequence[DueJudging]) -> None:
    """End the leases of those that have not moved on: they are due, and nobody's."""
    at = {"judgings": [one.judging for one in judgings], "versions": [one.version for one in judgings]}
    await connection.execute(SQL["hand_back_judgings"], at)


async def read_replies(
    connection: AsyncConnection, judgings: Sequence[DueJudging]
) -> dict[int, list[JudgeReply]]:
    """Every call of each judging, by sample."""
    cursor = await connection.execute(
        SQL["read_judge_replies"], {"judgings": [judging.judging for judging in judgings]}
    )
    found: dict[int, list[JudgeReply]] = {judging.judging: [] for judging in judgings}
    for row in await cursor.fetchall():
        row["content"] = unescape_json(row["content"])
        found[row.pop("judging")].append(JudgeReply(**row))
    return found


async def finish(connection: AsyncConnection, judgings: Sequence[FinishedJudging]) -> None:
    """Write verdicts; a judging that has moved on since it was read is left alone."""
    async with connection.pipeline(), connection.transaction():
        await connection.execute(
            SQL["lock_judgings"], {"judgings": sorted(judging.judging for judging in judgings)}
        )
        items = database_json([vars(judging) for judging in judgings])
        await connection.execute(SQL["finish_judgings"], {"items": items})
