"""Advancing trials: take what is due, decide the next step of each, commit it.

Strategies, tools and checks run outside any transaction. Whatever a vanished worker left due is found by a sweep.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import psycopg
from psycopg_pool import AsyncConnectionPool

from db import advance
from db.advance import DueTrial, FinishedTrial, JobResult
from db.connection import AsyncConnection
from workers import failpoints
from workers.context import Contexts, RunContext, TaskContext
from workers.step import Step, is_quick, next_step
from workers.storing import held, store

log = logging.getLogger(__name__)

_Decided = tuple[DueTrial, Step]

COLLECT_S = 0.01
MOST_TRIALS = 100
SWEEP_S = 5.0
# How many times longer than the lease on its jobs a worker's hold on a due trial is: its checks may take a while.
LEASES = 4


class Advancer:
    """Takes the next step of due trials."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        contexts: Contexts,
        due: asyncio.Queue[int],
        *,
        lease_s: float,
    ) -> None:
        self._pool = pool
        self._lease_s = LEASES * lease_s
        self._contexts = contexts
        self._due = due

    async def run(self) -> None:
        """Advance what becomes due here at once, and every few seconds what is due anywhere; until cancelled."""
        loop = asyncio.get_running_loop()
        sweep_at = loop.time() + SWEEP_S
        while True:
            try:
                async with asyncio.timeout_at(sweep_at):
                    trials = await self._collect()
            except TimeoutError:
                trials = None
                sweep_at = loop.time() + SWEEP_S
            try:
                # A sweep goes on while it finds as much as it may take at once.
                while await self.advance(trials) == MOST_TRIALS and trials is None:
                    pass
            except psycopg.Error as error:
                # The trials stay due in Postgres; the sweep comes back to them.
                log.warning("Trials could not be advanced (%s); they stay due.", str(error).strip())
                await asyncio.sleep(1)

    async def _collect(self) -> list[int]:
        first = await self._due.get()
        await asyncio.sleep(COLLECT_S)
        trials = [first]
        while len(trials) < MOST_TRIALS and not self._due.empty():
            trials.append(self._due.get_nowait())
        return trials

    async def advance(self, trials: Sequence[int] | None) -> int:
        """Advance these due trials, or whichever are due; give how many were taken."""
        lease = partial(advance.lease_due, trials=trials, most=MOST_TRIALS, lease_s=self._lease_s)
        async with held(self._pool, lease, advance.hand_back) as due:
            if due:
                await self._advance(due)
        return len(due)

    async def _advance(self, due: Sequence[DueTrial]) -> None:
        async with self._pool.connection() as connection:
            replies = await advance.read_replies(connection, due)
            files = await advance.read_files(connection, due)
        tasks = await self._contexts.tasks([trial.task for trial in due])
        runs = {run: await self._contexts.run_or_pause(run) for run in {trial.run for trial in due}}
        cases = [
            _Case(
                trial=trial,
                run=run,
                task=tasks[trial.task],
                results=replies[trial.trial],
                written=files[trial.trial],
            )
            for trial in due
            if (run := runs[trial.run]) is not None
        ]
        await store(await _steps(cases), self._commit, _given_up)

    async def _commit(self, decided: Sequence[_Decided]) -> None:
        steps = [step for _, step in decided]
        failpoints.reach("advance_decided")
        async with self._pool.connection() as connection:
            await advance.commit(
                connection,
                jobs=[job for step in steps for job in step.jobs],
                finished=[step.finished for step in steps if step.finished],
                reruns=[step.rerun for step in steps if step.rerun],
                files=[file for step in steps for file in step.files],
            )
        failpoints.reach("advance_committed")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Case:
    """All that the next step of a trial is decided by."""

    trial: DueTrial
    run: RunContext
    task: TaskContext
    results: Sequence[JobResult]
    written: Mapping[str, bytes]


async def _steps(cases: Sequence[_Case]) -> list[_Decided]:
    """All quick steps in one thread, which costs more than each of them; the others in threads of their own."""
    quick = [case for case in cases if is_quick(case.trial, case.run, case.task)]
    groups = [quick] * bool(quick) + [[case] for case in cases if case not in quick]
    found = await asyncio.gather(*(asyncio.to_thread(_decide_all, group) for group in groups))
    return [step for steps in found for step in steps]


def _decide_all(cases: Sequence[_Case]) -> list[_Decided]:
    return [(case.trial, _decide(case)) for case in cases]


def _decide(case: _Case) -> Step:
    try:
        return next_step(case.trial, case.run, case.task, results=case.results, written=case.written)
    except Exception as error:
        # An answer that a strategy, tool or check chokes on must not end one worker after another.
        log.exception("Trial %d cannot be advanced; it is left to a person.", case.trial.trial)
        reason = f"Its strategy or a check failed: {type(error).__name__}: {error}"
        return Step(finished=_for_review(case.trial, reason))


def _given_up(decided: _Decided, why: str) -> _Decided:
    trial, _ = decided
    return trial, Step(finished=_for_review(trial, f"Its next step {why}"))


def _for_review(trial: DueTrial, reason: str) -> FinishedTrial:
    return FinishedTrial(trial=trial.trial, version=trial.version, state="review", reason=reason)
