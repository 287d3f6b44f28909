"""Advancing trials: ask the strategy what follows, run the checks on its answer, commit either.

Strategies and checks run outside any transaction. Whatever a vanished worker left due is found by a sweep.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool

from db import advance
from db.advance import DueTrial, FinishedTrial, JobResult, NextJob
from db.connection import AsyncConnection
from workers import failpoints
from workers.checks import CheckContext, run_checks
from workers.context import Contexts, RunContext, TaskContext, stored_request
from workers.errors import KeyUnusable
from workers.reservation import bound_cost_usd, prompt_bytes
from workers.strategies import Answer, ModelCall, Reply

log = logging.getLogger(__name__)

COLLECT_S = 0.01
MOST_TRIALS = 100
LEASE_S = 120.0
SWEEP_S = 5.0

# A job that failed with one of these leaves its trial to a person: trying again by itself would not help.
_FOR_REVIEW = {"invalid_output", "truncated", "lost_worker"}


class Advancer:
    """Takes the next step of due trials."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        contexts: Contexts,
        due: asyncio.Queue[int],
    ) -> None:
        self._pool = pool
        self._contexts = contexts
        self._due = due

    async def run(self) -> None:
        """Advance what becomes due here at once, and every few seconds what is due anywhere; until cancelled."""
        while True:
            try:
                trials = await asyncio.wait_for(self._collect(), SWEEP_S)
            except TimeoutError:
                trials = None
            try:
                await self.advance(trials)
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
        async with self._pool.connection() as connection:
            due = await advance.lease_due(connection, trials=trials, most=MOST_TRIALS, lease_s=LEASE_S)
            if not due:
                return 0
            replies = await advance.read_replies(connection, due)
        tasks = await self._contexts.tasks([trial.task for trial in due])
        steps = await asyncio.gather(
            *(self._step(trial, tasks[trial.task], replies[trial.trial]) for trial in due)
        )
        jobs = [job for step in steps if isinstance(step, list) for job in step]
        finished = [step for step in steps if isinstance(step, FinishedTrial)]
        if jobs or finished:
            failpoints.reach("advance_decided")
            async with self._pool.connection() as connection:
                await advance.commit(connection, jobs=jobs, finished=finished)
            failpoints.reach("advance_committed")
        return len(due)

    async def _step(
        self, trial: DueTrial, task: TaskContext, results: Sequence[JobResult]
    ) -> list[NextJob] | FinishedTrial:
        try:
            run = await self._contexts.run(trial.run)
        except KeyUnusable as error:
            log.warning("%s This worker leaves the run's trials to others.", error)
            return []
        if failed := next((result for result in results if result.state == "failed"), None):
            return _failed(trial, failed)
        replies = [
            Reply(round=result.round, sample=result.sample, content=result.content or "")
            for result in results
        ]
        following = await asyncio.to_thread(run.strategies[trial.strategy].proceed, task.view, replies)
        if isinstance(following, Answer):
            return await asyncio.to_thread(_answered, trial, task, following)
        return [_next_job(trial, run, call) for call in following]


def _failed(trial: DueTrial, result: JobResult) -> FinishedTrial:
    place = f"round {result.round}, sample {result.sample}"
    return FinishedTrial(
        trial=trial.trial,
        version=trial.version,
        state="review" if result.error in _FOR_REVIEW else "failed",
        reason=f"{result.error} in {place}: {result.message or 'no message'}",
    )


def _answered(trial: DueTrial, task: TaskContext, answer: Answer) -> FinishedTrial:
    success, results = run_checks(task.checks, answer.text, CheckContext(files=task.files))
    return FinishedTrial(
        trial=trial.trial,
        version=trial.version,
        state="ok",
        answer=answer.text,
        detail=answer.detail,
        confirmed_success=success,
        checks=results,
    )


def _next_job(trial: DueTrial, run: RunContext, call: ModelCall) -> NextJob:
    request: Mapping[str, Any] = stored_request(call)
    prompt = prompt_bytes(call.messages)
    return NextJob(
        trial=trial.trial,
        version=trial.version,
        round=call.round,
        sample=call.sample,
        model=call.model,
        request=request,
        reserve_tokens=prompt + call.max_tokens,
        reserve_cost_usd=bound_cost_usd(
            prompt_tokens=prompt, max_tokens=call.max_tokens, price=run.prices.get(call.model)
        ),
    )
