"""A small run in Postgres, and the moves of dispatcher, workers, reaper and people on it, for tests of the store."""

from pathlib import Path
from typing import Any

from analysis.usage import Usage
from db import advance, dispatch, work
from db.advance import DueTrial, FinishedTrial, NextJob
from db.connection import AsyncConnection, Connection
from db.settlement import Settlement
from db.work import CallStart, Claimed
from scheduler.experiment import load
from scheduler.plan import Plan, plan
from tests.experiments import write_experiment

MODEL = "sim-small"
WORKER, OTHER = "host:1:a", "host:2:b"
LEASE_S = 60.0
# What a test may look at and must find unchanged; the worker's own row is no part of the run.
_TABLES = ("run", "run_lane", "lane", "trial", "judging", "verdict", "job", "call", "tally")


def planned(
    connection: Connection, folder: Path, *, samples: int = 1, tasks: int = 1, more: str = ""
) -> Plan:
    """One strategy that asks `samples` times, on so many tasks."""
    kind = f'kind = "self_consistency"\nk = {samples}' if samples > 1 else 'kind = "single"'
    loaded = load(
        write_experiment(
            folder, tasks=tasks, more=more, strategies=f'[[strategies]]\nname = "only"\n{kind}\n'
        )
    )
    return plan(connection, loaded, key_fingerprint="simulated", base_url="http://127.0.0.1:1")


class Store:
    """Moves on one run, by job number in the order of planning (1…)."""

    def __init__(self, connection: Connection, worker: AsyncConnection, plan: Plan) -> None:
        self.connection = connection
        self.worker = worker
        self.run = plan.run
        self.lease_nos: dict[str, int] = {}

    def rows(self, query: str, **values: Any) -> list[dict[str, Any]]:
        return self.connection.execute(query, values or None).fetchall()

    def jobs(self) -> list[dict[str, Any]]:
        # As JSON, which has a word for the time -infinity.
        return [row["job"] for row in self.rows("SELECT to_jsonb(job) AS job FROM job ORDER BY id")]

    def job(self, number: int = 1) -> dict[str, Any]:
        return self.jobs()[number - 1]

    def trial(self) -> dict[str, Any]:
        return self.rows("SELECT * FROM trial ORDER BY id")[0]

    def call(self, attempt: int = 1, number: int = 1) -> dict[str, Any]:
        [found] = self.rows(
            "SELECT * FROM call WHERE job = %(job)s AND attempt = %(attempt)s",
            job=self.job(number)["id"],
            attempt=attempt,
        )
        return found

    def everything(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table that belongs to a run."""
        return {
            table: [
                row["row"] for row in self.rows(f"SELECT to_jsonb({table}) AS row FROM {table} ORDER BY 1")
            ]
            for table in _TABLES
        }

    def lanes(self) -> list[dispatch.OpenLane]:
        return dispatch.open_lanes(self.connection)

    def dispatch(self, most: int = 100) -> list[tuple[int, int]]:
        """pending -> queued, whatever may go."""
        return [
            pair
            for lane in self.lanes()
            for pair in dispatch.dispatch(self.connection, lane=lane, most=most).jobs
        ]

    async def beat(self, worker: str = WORKER, lease_s: float = LEASE_S) -> None:
        self.lease_nos[worker] = await work.heartbeat(
            self.worker,
            worker=worker,
            lease_s=lease_s,
            lease_no=self.lease_nos.get(worker, 0),
            in_flight=0,
            waiting=0,
        )

    async def claim(self, number: int = 1, worker: str = WORKER, stale: int = 0) -> list[Claimed]:
        """queued -> running, by a message that is `stale` dispatches old."""
        job = self.job(number)
        return await work.claim(self.worker, worker=worker, shard=[(job["id"], job["dispatch_no"] - stale)])

    async def start(self, number: int = 1, worker: str = WORKER, **changes: Any) -> bool:
        """The next call's row; whether it may be sent."""
        start = self.start_of(number, **{"lease_no": self.lease_nos.get(worker, 1)} | changes)
        started, _ = await work.commit(self.worker, worker=worker, starts=[start], settlements=[])
        return bool(started)

    def start_of(self, number: int = 1, **changes: Any) -> CallStart:
        job = self.job(number)
        values = {
            "trial": job["trial"],
            "job": job["id"],
            "dispatch_no": job["dispatch_no"],
            "attempt": job["attempt"] + 1,
            "model": MODEL,
            "key_fingerprint": "simulated",
            "lease_no": self.lease_nos.get(WORKER, 1),
        }
        return CallStart(**values | changes)

    async def settle(self, number: int = 1, worker: str = WORKER, **changes: Any) -> list[int]:
        """The outcome of a call; the trials that became due."""
        settlement = self.answer_of(number, **changes)
        _, due = await work.commit(self.worker, worker=worker, starts=[], settlements=[settlement])
        return due

    def answer_of(self, number: int = 1, **changes: Any) -> Settlement:
        job = self.job(number)
        values = {
            "trial": job["trial"],
            "job": job["id"],
            "dispatch_no": job["dispatch_no"],
            "attempt": job["attempt"],
            "status": "ok",
            "next_state": "ok",
            "content": "42",
            "usage": Usage(input_tokens=10, output_tokens=5, total_tokens=15),
            "cost_usd": 0.001,
            "http_status": 200,
        }
        return Settlement(**values | changes)

    async def fail(self, number: int = 1, worker: str = WORKER, **changes: Any) -> list[int]:
        """An error that is tried again."""
        nothing = {
            "content": None,
            "usage": Usage(input_tokens=None, output_tokens=None, total_tokens=None),
            "cost_usd": None,
            "http_status": 500,
        }
        retry = {"status": "error", "next_state": "pending", "error": "server_error", "failures": 1,
                 "retry_reason": "server_error"}  # fmt: skip
        return await self.settle(number, worker, **nothing | retry | changes)

    def vanish(self, worker: str = WORKER) -> None:
        """The worker's lease is over."""
        self.connection.execute(
            "UPDATE worker SET lease_until = now() - interval '1 second' WHERE name = %s", [worker]
        )

    def reap(self) -> list[tuple[int, str]]:
        return dispatch.release_lost(self.connection)

    async def to(self, state: str, number: int = 1) -> None:
        """Bring a planned job to a state by its ordinary moves, all by the first worker unless it says otherwise."""
        await self.beat()
        if state == "pending":
            return
        self.dispatch()
        if state == "queued":
            return
        assert len(await self.claim(number)) == 1
        if state == "claimed":
            return
        assert await self.start(number)
        match state:
            case "started":
                return
            case "answered":
                await self.settle(number)
                return
            case "failed":
                await self.fail(number, next_state="failed", retry_reason=None)
                return
        # The worker freezes in the middle of the call, and its lease is over.
        self.vanish()
        self.reap()
        if state == "reaped":
            return
        self.dispatch()
        if state == "requeued":
            return
        await self.beat(OTHER)
        assert len(await self.claim(number, OTHER)) == 1
        if state == "taken over":
            return
        assert await self.start(number, OTHER)
        if state == "sent again":
            return
        assert state == "answered again"
        await self.settle(number, OTHER)

    async def lease(self, lease_s: float = LEASE_S) -> list[DueTrial]:
        return await advance.lease_due(self.worker, trials=None, most=10, lease_s=lease_s)

    def next_job(self, seen: DueTrial, sample: int = 1) -> NextJob:
        return NextJob(
            trial=seen.trial,
            version=seen.version,
            round=2,
            sample=sample,
            model=MODEL,
            request={"messages": []},
            reserve_tokens=10,
            reserve_cost_usd=None,
        )

    @staticmethod
    def finished(seen: DueTrial) -> FinishedTrial:
        return FinishedTrial(trial=seen.trial, version=seen.version, state="ok", answer="42")
