"""The engine of a worker process: one asyncio loop that takes each job from claim to settlement.

Celery hands over shards and is free again when their last job is admitted; what is in flight is guarded by the
worker's lease in Postgres, not by Celery.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import redis.asyncio

from db import work
from db.pool import pool
from db.work import CallStart, Claimed
from workers import failpoints
from workers.admission import Admission
from workers.advancing import Advancer
from workers.app import Shard
from workers.commands.running import run_command
from workers.committer import Committer
from workers.context import Contexts, RunContext, TaskContext, request_of
from workers.errors import KeyUnusable
from workers.examining import Examiner
from workers.gateway import Disposition, Outcome, Request
from workers.gateway.client import Gateway
from workers.lease import Lease
from workers.settling import proves_lane, settle
from workers.waiting import clock_s, end_all, essential, patiently, unless

if TYPE_CHECKING:
    from workers.metrics import WorkerMetrics

log = logging.getLogger(__name__)

Sender = Callable[[], Awaitable[Outcome]]

POOL_SIZE = 4
# A cool-down that is longer than this is kept in Postgres, where every dispatcher obeys it and no flush loses it.
HOLD_FROM_S = 30.0
NO_KEY_DELAY_S = 30.0


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What a worker is told; everything else it reads from Postgres."""

    database_url: str = field(repr=False)
    broker_url: str = field(repr=False)
    concurrency: int
    """Calls in flight at the most."""
    lease_s: float = 30.0
    """How long after its last heartbeat a worker counts as gone."""


class Engine:
    """Everything that a worker process does, on one loop."""

    def __init__(self, settings: EngineSettings, metrics: "WorkerMetrics | None" = None) -> None:
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._settings = settings
        self._pool = pool(settings.database_url, size=POOL_SIZE, application="paretoken worker")
        self._redis = redis.asyncio.Redis.from_url(
            settings.broker_url, socket_timeout=10, socket_connect_timeout=3
        )
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._admission = Admission(self._redis, lease_s=settings.lease_s, stopped=self._stopped)
        self._lease = Lease(self._pool, worker=self.worker, lease_s=settings.lease_s, busy=self._busy)
        self._committer = Committer(self._pool, worker=self.worker)
        self._contexts = Contexts(self._pool)
        self._advancer = Advancer(self._pool, self._contexts, self._committer.due, lease_s=settings.lease_s)
        self._examiner = Examiner(
            self._pool, self._contexts, self._committer.judged, lease_s=settings.lease_s
        )
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._admissions: set[asyncio.Task[Any]] = set()
        self._jobs: set[asyncio.Task[None]] = set()
        self._held: set[tuple[int, int]] = set()
        self._services: list[asyncio.Task[None]] = []
        self._heartbeats: set[asyncio.Task[None]] = set()
        self._gateways: dict[tuple[str, str, bool, float], Gateway] = {}
        self._in_flight = 0
        self._metrics = metrics
        if metrics:
            metrics.watch(
                in_flight=lambda: self._in_flight,
                waiting=lambda: self._busy()[1],
                lease_left_s=lambda: self._lease.left_s,
            )

    async def open(self) -> None:
        """Connect, take the lease and begin to commit and advance."""
        await self._pool.open()
        await patiently(self._lease.renew)
        self._heartbeats.add(asyncio.create_task(essential(self._lease.keep())))
        services = (self._committer.run(), self._advancer.run(), self._examiner.run())
        self._services.extend(asyncio.create_task(essential(service)) for service in services)

    async def admit(self, shard: Shard) -> None:
        """Claim a shard's jobs and put them in flight; returns when the last one has a slot."""
        if self._stopped.done():
            return
        admission = asyncio.create_task(self._admit(shard))
        self._admissions.add(admission)
        admission.add_done_callback(self._admissions.discard)
        await admission

    async def _admit(self, shard: Shard) -> None:
        claimed = await unless(self._stopped, patiently(lambda: self._claim(shard)))
        # A message may come twice, and a claim whose answer was lost is made again.
        jobs = [job for job in claimed or () if (job.job, job.dispatch_no) not in self._held]
        self._held.update((job.job, job.dispatch_no) for job in jobs)
        failpoints.reach("claimed")
        # All tasks at once; later each job finds its own, or says what is wrong with it.
        with contextlib.suppress(Exception):
            await self._contexts.tasks([job.task for job in jobs])
        for number, job in enumerate(jobs):
            if not await self._slot():
                await self._hand_back([(job, 0.0) for job in jobs[number:]])
                return
            task = asyncio.create_task(self._job(job))
            self._jobs.add(task)
            task.add_done_callback(self._jobs.discard)

    async def _slot(self) -> bool:
        """Take one of the process's slots; False where it stops first."""
        if self._slots.locked() or self._stopped.done():
            return bool(await unless(self._stopped, self._slots.acquire()))
        return await self._slots.acquire()

    async def close(self, *, deadline_s: float) -> None:
        """Stop gracefully: nothing new is sent; calls in flight may finish until the deadline."""
        if not self._stopped.done():
            self._stopped.set_result(None)
        if self._jobs:
            log.info("%d calls in flight may finish.", len(self._jobs))
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        # Admissions first: the last of them may just have put a job in flight.
        await end_all(self._admissions, end - loop.time())
        await end_all(self._jobs, end - loop.time())
        with contextlib.suppress(psycopg.Error, TimeoutError):
            await asyncio.wait_for(self._advance_rest(), 10)
        # One more beat would be a new lease.
        await end_all(self._heartbeats, 0)
        with contextlib.suppress(psycopg.Error):
            async with self._pool.connection() as connection:
                await work.end_worker(connection, worker=self.worker)
        for service in self._services:
            service.cancel()
        await asyncio.gather(*self._services, return_exceptions=True)
        for gateway in self._gateways.values():
            await gateway.close()
        await self._redis.aclose()
        await self._pool.close()

    async def _advance_rest(self) -> None:
        while not self._committer.due.empty():
            await self._advancer.advance([self._committer.due.get_nowait()])
        await self._examiner.examine()

    async def _claim(self, shard: Shard) -> list[Claimed]:
        async with self._pool.connection() as connection:
            return await work.claim(connection, worker=self.worker, shard=shard)

    async def _hand_back(self, jobs: list[tuple[Claimed, float]]) -> None:
        async def move() -> None:
            async with self._pool.connection() as connection:
                await work.hand_back(connection, worker=self.worker, jobs=jobs)

        await patiently(move)

    async def _job(self, job: Claimed) -> None:
        """One job from claim to settlement."""
        try:
            await self._work(job)
        except KeyUnusable as error:
            log.error("%s This worker hands the run's jobs back.", error)
            await self._hand_back([(job, NO_KEY_DELAY_S)])
        except asyncio.CancelledError:
            # The worker stops at its deadline. A call that was sent has an outcome, since the gateway makes one of a
            # cancellation; a row that gets none becomes `unknown` with the worker's end.
            await self._hand_back([(job, 0.0)])
        except Exception as error:
            # Whatever it is: a job that nobody runs must not look as if somebody did, nor come back for ever.
            log.exception("Job %d cannot be run.", job.job)
            reason = f"Job {job.job} cannot be run: {type(error).__name__}: {error}. See the worker's log."
            await patiently(lambda: self._say(work.pause_run, run=job.run, reason=reason))
            await self._hand_back([(job, 0.0)])
        finally:
            self._held.discard((job.job, job.dispatch_no))
            self._slots.release()

    async def _work(self, job: Claimed) -> None:
        run = await patiently(lambda: self._contexts.run(job.run))
        tasks = await patiently(lambda: self._contexts.tasks([job.task]))
        request = request_of(job, run, tasks[job.task])
        lane = run.lane_name(request.model)
        send = self._sender(job, run, request, tasks[job.task])
        ticket = f"{job.job}:{job.dispatch_no}"
        asked = clock_s()
        delay_s = await self._admission.ask(job, run, request, lane, ticket)
        if self._metrics:
            self._metrics.admitted(request.model, wait_s=clock_s() - asked, granted=delay_s is None)
        if delay_s is not None:
            await self._hand_back([(job, delay_s)])
            return
        failpoints.reach("granted")
        start = CallStart(
            trial=job.trial,
            judging=job.judging,
            job=job.job,
            dispatch_no=job.dispatch_no,
            attempt=job.attempt + 1,
            model=request.model,
            key_fingerprint=run.key.fingerprint,
            lease_no=self._lease.number,
        )
        if self._stopped.done() or not await self._committer.start(start):
            await self._admission.give_up(lane, ticket)
            await self._hand_back([(job, 0.0)])
            return
        failpoints.reach("call_started")
        outcome = await self._call(send, start)
        failpoints.reach("answered")
        throttled = outcome.whole.disposition is Disposition.THROTTLED
        if throttled:
            # At once: until the limiter knows, it lets others go, who are refused too.
            await self._admission.report(lane, ticket, outcome.whole)
        # Before the settlement gives the job back: the dispatcher must find the run paused by then.
        try:
            await self._consequences(job, run, outcome)
        except psycopg.Error:
            log.exception("What follows from the outcome of job %d is not stored; the outcome is.", job.job)
        price = run.prices.get(request.model)
        settlement = settle(job, start.attempt, outcome, price=price, retries=run.retries)
        await self._committer.settle(settlement)
        failpoints.reach("settled")
        if self._metrics:
            self._metrics.settled(request.model, outcome.whole, cost_usd=settlement.whole_cost_usd)
        if not throttled:
            await self._admission.report(lane, ticket, outcome.whole)

    def _sender(self, job: Claimed, run: RunContext, request: Request, task: TaskContext) -> Sender:
        """What makes the call: the gateway's client, or a program of the strategy's own."""
        if command := run.command(job.strategy):
            return partial(run_command, command, request, run=run, files=task.files, stopped=self._stopped)
        return partial(self._gateway(run).complete, request)

    def _busy(self) -> tuple[int, int]:
        """Calls in flight, and jobs that wait for their slot."""
        return self._in_flight, len(self._jobs) - self._in_flight

    async def _call(self, send: Sender, start: CallStart) -> Outcome:
        # Looked at once more just before sending: a process that was frozen must not send what was given to another,
        # even if it has a new lease by now.
        if not self._lease.still(start.lease_no):
            return Outcome(
                status="error",
                disposition=Disposition.RETRY,
                error="not_sent",
                message="The worker's lease was over before the request was sent.",
            )
        self._in_flight += 1
        try:
            return await send()
        except Exception as error:
            # A fault of this program, which must not hide that something may have been paid.
            log.exception("The call of job %d has failed here.", start.job)
            return Outcome(
                status="unknown",
                disposition=Disposition.PAUSE_RUN,
                error="unknown_outcome",
                message=f"Job {start.job} cannot be run: {type(error).__name__}: {error}. See the worker's log.",
            )
        finally:
            self._in_flight -= 1

    def _gateway(self, run: RunContext) -> Gateway:
        key = (run.base_url, run.key.fingerprint, run.stream, run.timeout_s)
        if key not in self._gateways:
            self._gateways[key] = Gateway(
                base_url=run.base_url,
                api_key=run.key.secret,
                max_connections=self._settings.concurrency,
                timeout_s=run.timeout_s,
                stream=run.stream,
            )
        return self._gateways[key]

    async def _consequences(self, job: Claimed, run: RunContext, outcome: Outcome) -> None:
        """What an outcome means for the whole run or lane."""
        if outcome.disposition is Disposition.PAUSE_RUN:
            said = (outcome.message or outcome.error or "").rstrip(". ")
            reason = f"{said}. Then: paretoken resume {run.run_id}"
            log.error("Run %s is paused: %s", run.run_id, reason)
            await patiently(lambda: self._say(work.pause_run, run=job.run, reason=reason))
        elif proves_lane(outcome) and not job.proven:
            await patiently(lambda: self._say(work.prove_lane, run=job.run, lane=job.lane))
        asked_s = outcome.retry_after_s or 0.0
        if outcome.disposition is Disposition.THROTTLED and asked_s > HOLD_FROM_S:
            reason = outcome.message or "The gateway asked to wait."
            await patiently(lambda: self._say(work.hold_lane, lane=job.lane, hold_s=asked_s, reason=reason))

    async def _say(self, move: Callable[..., Awaitable[None]], **what: Any) -> None:
        """One of `db.work`'s moves on a run or a lane."""
        async with self._pool.connection() as connection:
            await move(connection, **what)
