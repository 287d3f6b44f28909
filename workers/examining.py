"""Examining judgings: read what the calls of those that are due say, and commit the verdicts.

Judgings lead to no further calls, so nobody waits for one: whoever has settled a call of a judge looks for all that is
due, and a sweep finds what a vanished worker left.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import psycopg
from psycopg_pool import AsyncConnectionPool

from db import judging
from db.connection import AsyncConnection
from db.judging import DueJudging, FinishedJudging, JudgeReply
from workers import failpoints
from workers.context import Contexts, RunContext
from workers.judges import Reading, draw_of
from workers.storing import held, store

log = logging.getLogger(__name__)

COLLECT_S = 0.05
SWEEP_S = 5.0
MOST_JUDGINGS = 500


class Examiner:
    """Turns replies of judges into verdicts."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        contexts: Contexts,
        settled: asyncio.Event,
        *,
        lease_s: float,
    ) -> None:
        self._pool = pool
        self._contexts = contexts
        self._settled = settled
        self._lease_s = lease_s

    async def run(self) -> None:
        """Examine when a call of a judge was settled here, and every few seconds; until cancelled."""
        while True:
            try:
                async with asyncio.timeout(SWEEP_S):
                    await self._settled.wait()
                await asyncio.sleep(COLLECT_S)
            except TimeoutError:
                pass
            self._settled.clear()
            try:
                await self.examine()
            except psycopg.Error as error:
                # The judgings stay due in Postgres; the sweep comes back to them.
                log.warning("Judgings could not be examined (%s); they stay due.", str(error).strip())
                await asyncio.sleep(1)

    async def examine(self) -> None:
        """Examine whatever is due and nobody's."""
        lease = partial(judging.lease_due, most=MOST_JUDGINGS, lease_s=self._lease_s)
        while True:
            async with held(self._pool, lease, judging.hand_back) as due:
                if not due:
                    return
                await self._examine(due)

    async def _examine(self, due: Sequence[DueJudging]) -> None:
        async with self._pool.connection() as connection:
            replies = await judging.read_replies(connection, due)
        runs = {run: await self._contexts.run_or_pause(run) for run in {one.run for one in due}}
        found = [
            _finished(one, run, replies[one.judging]) for one in due if (run := runs[one.run]) is not None
        ]
        failpoints.reach("judged")
        await store(found, self._commit, _given_up)

    async def _commit(self, judgings: Sequence[FinishedJudging]) -> None:
        async with self._pool.connection() as connection:
            await judging.finish(connection, judgings)


def _given_up(judging: FinishedJudging, why: str) -> FinishedJudging:
    readings = [{"shown": reading["shown"], "problem": why} for reading in judging.readings]
    return replace(judging, state="failed", readings=readings, verdicts=[])


def _finished(due: DueJudging, run: RunContext, replies: Sequence[JudgeReply]) -> FinishedJudging:
    try:
        return finished(due, run, replies)
    except Exception as error:
        # An answer that a judge chokes on must not end one worker after another.
        log.exception("Judging %d cannot be read; it gives no verdict.", due.judging)
        problem = f"unreadable: {type(error).__name__}: {error}"
        return FinishedJudging(
            judging=due.judging,
            version=due.version,
            state="failed",
            readings=[{"shown": list(due.question), "problem": problem}],
            verdicts=[],
        )


def finished(due: DueJudging, run: RunContext, replies: Sequence[JudgeReply]) -> FinishedJudging:
    """What the replies of a judging amount to: verdicts, or the reason why there is none."""
    judge = run.judges[due.judge]
    draw = draw_of(seed=run.seed, task_id=due.task_id, repeat=due.repeat, judge=due.judge)
    showings = judge.showings(len(due.question), draw)
    readings = [
        Reading(
            shown=shown, scores=None if reply.state != "ok" else judge.scores(reply.content or "", len(shown))
        )
        for shown, reply in zip(showings, replies, strict=True)
    ]
    verdicts = judge.verdicts(readings)
    return FinishedJudging(
        judging=due.judging,
        version=due.version,
        state="ok" if verdicts else "failed",
        readings=[
            {"shown": [due.question[place] for place in reading.shown]} | _said(reading, reply)
            for reading, reply in zip(readings, replies, strict=True)
        ],
        verdicts=[
            {
                "winner": due.question[verdict.winner],
                "loser": due.question[verdict.loser],
                "tie": verdict.tie,
                "items": verdict.items,
            }
            for verdict in verdicts
        ],
    )


def _said(reading: Reading, reply: JudgeReply) -> dict[str, object]:
    if reading.scores is not None:
        return {"scores": list(reading.scores)}
    return {"problem": "unparsable" if reply.state == "ok" else reply.error or reply.state}
