"""Any order of the store's moves, on a real Postgres, against a small model of what each may change.

Workers come and go, messages arrive twice and late, answers come after their job was given away, commits are sent
again. After every move the tables are compared with the model; in the end the run must still be able to finish.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from psycopg.rows import dict_row

from analysis.usage import Usage
from db import advance, dispatch, runs, work
from db.advance import DueTrial, FinishedTrial, NextJob
from db.connection import AsyncConnection, Connection, connect
from db.settlement import Settlement
from db.work import CallStart, Claimed
from scheduler.experiment import load
from scheduler.plan import plan
from tests.experiments import write_experiment
from tests.faults.invariants import check_store
from tests.runs import KEY
from workers.context import stored_request
from workers.strategies import Answer, Reply, TaskView, strategy

Result = TypeVar("Result")

WORKERS = ("a", "b")
MOST_LOST = 4
OUTCOMES = ("ok", "ok", "ok", "retry", "unknown", "failed")
OPEN = ("pending", "queued", "running")
STRATEGIES = """
[[strategies]]
name = "sc_k2"
kind = "self_consistency"
k = 2

[[strategies]]
name = "debate_2"
kind = "debate"
debaters = 2
rounds = 2
decision = "vote"
"""
SPENT = Usage(input_tokens=7, output_tokens=5, total_tokens=12)
_numbers = count(1)


@dataclass
class Job:
    """A job as the model believes it to be."""

    trial: int
    state: str = "pending"
    dispatch_no: int = 0
    worker: str | None = None
    lost: int = 0
    answer: int | None = None
    calls: list[str] = field(default_factory=list)
    """Status of attempt 1, 2, …"""


class Store(RuleBasedStateMachine):
    """Two workers, a dispatcher, a reaper and a person, one move at a time."""

    database_url: str
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.connection: Connection = connect(self.database_url)
        self.async_connection: AsyncConnection = self.do(
            psycopg.AsyncConnection.connect(self.database_url, autocommit=True, row_factory=dict_row)
        )
        self.prefix = f"{next(_numbers)}-"
        self.messages: list[tuple[int, int]] = []
        self.held: dict[str, dict[int, Claimed]] = {worker: {} for worker in WORKERS}
        """What a worker believes to run and has not called for yet."""
        self.sent: list[tuple[str, Claimed, int]] = []
        """Calls whose outcome their worker has not reported yet."""
        self.steps: list[tuple[DueTrial, list[NextJob] | FinishedTrial]] = []
        self.alive = dict.fromkeys(WORKERS, False)
        self.lease_nos = dict.fromkeys(WORKERS, 0)
        self.run_state = "running"

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    @initialize(seed=st.integers(0, 2**32 - 1))
    def begin(self, seed: int) -> None:
        # Moves are drawn from this: hypothesis left to itself rarely gets seven right ones in a row.
        self.rng = random.Random(seed)
        path = write_experiment(
            self.folder,
            tasks=2,
            gateway=f'[gateway]\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "{KEY}"\n',
            strategies=STRATEGIES,
            more=f"[retries]\nmax_lost_leases = {MOST_LOST}\n",
        )
        loaded = replace(load(path), run_id=f"run-{self.prefix}")
        self.run = plan(self.connection, loaded, key_fingerprint="k", base_url=loaded.base_url).run
        self.jobs: dict[int, Job] = {}
        self._see_new_jobs()
        for worker in WORKERS:
            self._beat(worker)

    def _see_new_jobs(self) -> list[int]:
        rows = self.connection.execute("SELECT id, trial FROM job WHERE run = %s", [self.run]).fetchall()
        new = [row["id"] for row in rows if row["id"] not in self.jobs]
        self.jobs |= {row["id"]: Job(trial=row["trial"]) for row in rows if row["id"] in new}
        return new

    def _trials(self) -> dict[int, str]:
        rows = self.connection.execute("SELECT id, state FROM trial WHERE run = %s", [self.run]).fetchall()
        return {row["id"]: row["state"] for row in rows}

    @rule()
    def move(self) -> None:
        """One of those that change something now."""
        likely = [move for move, weight in self._possible() for _ in range(weight)]
        self.rng.choice(likely)()

    def _possible(self) -> list[tuple[Callable[[], None], int]]:
        states = {job.state for job in self.jobs.values()}
        dead = not all(self.alive.values())
        held = any(self.held.values())
        return [
            (self.dispatch, 4 * ("pending" in states)),
            (self.claim, 5 if "queued" in states else int(bool(self.messages))),
            (self.start, 6 * held),
            (self.hand_back, int(held)),
            (self.settle, 6 * bool(self.sent)),
            (self.decide, 2),
            (self.commit_step, 4 * bool(self.steps)),
            (self.lose_lease, int(any(self.alive.values()))),
            (self.reap, 3 * dead),
            (self.heartbeat, 3 * dead),
            (self.flush_broker, int("queued" in states)),
            (self.pause, int(self.run_state == "running")),
            (self.resume, 4 * (self.run_state == "paused")),
            (self.cancel, int(len(self.messages) > 30)),
        ]

    def _given_up(self, job: Job) -> bool:
        """Whether nothing more is to be done for the job's trial."""
        return self.run_state == "cancelled" or self._trials()[job.trial] not in ("pending", "running")

    # The scheduler's moves.

    def dispatch(self) -> None:
        most = self.rng.randint(1, 8)
        waiting = [number for number, job in self.jobs.items() if job.state == "pending"]
        lanes = [lane for lane in dispatch.open_lanes(self.connection) if lane.run == self.run]
        assert bool(lanes) == (self.run_state == "running")
        for lane in lanes:
            found = dispatch.dispatch(self.connection, lane=lane, most=most).jobs
            assert len(found) == min(most, len(waiting))
            for number, dispatch_no in found:
                job = self.jobs[number]
                assert (job.state, dispatch_no) == ("pending", job.dispatch_no + 1)
                job.state, job.dispatch_no = "queued", dispatch_no
            self.messages += found

    def flush_broker(self) -> None:
        gone = dispatch.unqueue_lost(self.connection, before=dispatch.database_time(self.connection))
        assert set(gone) == {number for number, job in self.jobs.items() if job.state == "queued"}
        for number in gone:
            self.jobs[number].state = "pending"

    def reap(self) -> None:
        lost = {self.prefix + worker for worker in WORKERS if not self.alive[worker]}
        expected = {
            number for number, job in self.jobs.items() if job.state == "running" and job.worker in lost
        }
        ended = {number for number in expected if self._given_up(self.jobs[number])}
        released = dict(dispatch.release_lost(self.connection))
        assert released.keys() == expected
        for number in expected:
            job = self.jobs[number]
            job.lost += 1
            poison = "failed" if job.lost >= MOST_LOST else "pending"
            job.state, job.worker = "cancelled" if number in ended else poison, None
            assert released[number] == job.state
        for worker, claimed, attempt in self.sent:
            job = self.jobs[claimed.job]
            if self.prefix + worker in lost and job.calls[attempt - 1] == "started":
                job.calls[attempt - 1] = "unknown"

    # A worker's moves.

    def heartbeat(self) -> None:
        self._beat(self.rng.choice([worker for worker in WORKERS if not self.alive[worker]]))

    def _beat(self, worker: str) -> None:
        name = self.prefix + worker
        lease_no = self.do(
            work.heartbeat(
                self.async_connection,
                worker=name,
                lease_s=3600,
                lease_no=self.lease_nos[worker],
                in_flight=0,
                waiting=0,
            )
        )
        assert lease_no == self.lease_nos[worker] + (not self.alive[worker])
        self.lease_nos[worker] = lease_no
        self.alive[worker] = True

    def lose_lease(self) -> None:
        self._lose_lease(self.rng.choice([worker for worker in WORKERS if self.alive[worker]]))

    def _lose_lease(self, worker: str) -> None:
        self.connection.execute(
            "UPDATE worker SET lease_until = now() - interval '1 s' WHERE name = %s", [self.prefix + worker]
        )
        self.alive[worker] = False

    def claim(self) -> None:
        """A message that is new, old, or comes a second time."""
        worker = self.rng.choice(WORKERS)
        recent = self.messages[-8:]
        shard = self.rng.sample(recent, self.rng.randint(1, min(4, len(recent))))
        name = self.prefix + worker
        expected = {
            number
            for number, dispatch_no in shard
            if self.alive[worker]
            and (job := self.jobs[number]).dispatch_no == dispatch_no
            and (
                (job.state == "queued" and self.run_state == "running")
                # The answer to the claim may have been lost.
                or (job.state == "running" and job.worker == name)
            )
        }
        claimed = self.do(work.claim(self.async_connection, worker=name, shard=shard))
        assert {job.job for job in claimed} == expected
        for job in claimed:
            if self.jobs[job.job].state == "queued":
                self.jobs[job.job].state, self.jobs[job.job].worker = "running", name
                self.held[worker][job.job] = job

    def _a_held_one(self) -> tuple[str, int]:
        return self.rng.choice(
            [(worker, number) for worker in WORKERS for number in sorted(self.held[worker])]
        )

    def hand_back(self) -> None:
        self._return(*self._a_held_one())

    def _return(self, worker: str, number: int) -> None:
        claimed = self.held[worker].pop(number)
        job = self.jobs[number]
        given_up = self._given_up(job)
        self.do(work.hand_back(self.async_connection, worker=self.prefix + worker, jobs=[(claimed, 0.0)]))
        if self._is_held(worker, claimed):
            job.state, job.worker = "cancelled" if given_up else "pending", None

    def _is_held(self, worker: str, claimed: Claimed) -> bool:
        job = self.jobs[claimed.job]
        return (job.state, job.worker, job.dispatch_no) == (
            "running",
            self.prefix + worker,
            claimed.dispatch_no,
        )

    def start(self) -> None:
        worker, number = self._a_held_one()
        claimed = self.held[worker][number]
        job = self.jobs[number]
        # Now and then one that has waited since the worker's lease before.
        lease_no = self.lease_nos[worker] - self.rng.choice([0, 0, 0, 1])
        allowed = (
            self._is_held(worker, claimed)
            and len(job.calls) == claimed.attempt
            and self.alive[worker]
            and lease_no == self.lease_nos[worker]
            and self.run_state == "running"
            and not self._given_up(job)
        )
        start = CallStart(
            trial=claimed.trial,
            job=number,
            dispatch_no=claimed.dispatch_no,
            attempt=claimed.attempt + 1,
            model="sim-small",
            key_fingerprint="k",
            lease_no=lease_no,
        )
        for _ in range(self.rng.randint(1, 2)):  # a second time, as after a lost COMMIT
            started, _ = self._commit(worker, starts=[start])
            assert started == ({(number, start.dispatch_no)} if allowed else set())
        if allowed:
            del self.held[worker][number]
            job.calls.append("started")
            self.sent.append((worker, claimed, start.attempt))
        else:
            self._return(worker, number)

    def settle(self) -> None:
        """An outcome, of a call that may have been given up long ago."""
        worker, claimed, attempt = self.sent.pop(self.rng.randint(0, len(self.sent) - 1))
        outcome = self.rng.choice(OUTCOMES)
        self._settle(worker, claimed, attempt, outcome, times=self.rng.randint(1, 2))

    def _settle(self, worker: str, claimed: Claimed, attempt: int, outcome: str, times: int = 1) -> None:
        job = self.jobs[claimed.job]
        status = {"ok": "ok", "unknown": "unknown"}.get(outcome, "error")
        settlement = Settlement(
            trial=claimed.trial,
            job=claimed.job,
            dispatch_no=claimed.dispatch_no,
            attempt=attempt,
            status=status,
            next_state={"ok": "ok", "failed": "failed"}.get(outcome, "pending"),
            failures=int(outcome != "ok"),
            error=None if outcome == "ok" else outcome,
            content=f"Answer: {attempt}" if outcome == "ok" else None,
            usage=SPENT if outcome == "ok" else Usage(),
            cost_usd=0.01 if outcome == "ok" else None,
            response_id=f"{claimed.job}-{attempt}" if outcome == "ok" else None,
        )
        fence = self._is_held(worker, claimed) and len(job.calls) == attempt
        given_up = self._given_up(job)
        settled = job.calls[attempt - 1]
        for _ in range(times):
            self._commit(worker, settlements=[settlement])
        if settled != "started" and status == "unknown":
            return
        job.calls[attempt - 1] = status
        if fence or (outcome == "ok" and job.state in ("pending", "queued")):
            over = settlement.next_state == "pending" and given_up
            job.state, job.worker = "cancelled" if over else settlement.next_state, None
            job.answer = attempt if outcome == "ok" else None

    def _commit(
        self,
        worker: str,
        *,
        starts: list[CallStart] = [],  # noqa: B006
        settlements: list[Settlement] = [],  # noqa: B006
    ) -> tuple[set[tuple[int, int]], list[int]]:
        return self.do(
            work.commit(
                self.async_connection, worker=self.prefix + worker, starts=starts, settlements=settlements
            )
        )

    # Advancing: a step is decided, and committed at once, later, or never.

    def decide(self) -> None:
        self._decide(lease_s=self.rng.choice([-1.0, 3600.0]))

    def _decide(self, *, lease_s: float) -> None:
        due = self.do(advance.lease_due(self.async_connection, trials=None, most=2, lease_s=lease_s))
        replies = self.do(advance.read_replies(self.async_connection, due))
        self.steps += [(trial, self._next(trial, replies[trial.trial])) for trial in due]

    def _next(self, trial: DueTrial, results: list[advance.JobResult]) -> list[NextJob] | FinishedTrial:
        assert {result.state for result in results} <= {"ok", "failed", *OPEN, "cancelled"}
        end = FinishedTrial(trial=trial.trial, version=trial.version, state="failed")
        if any(result.state == "failed" for result in results):
            return end
        assert {result.state for result in results} == {"ok"}
        row = self.connection.execute(
            "SELECT kind, params FROM strategy WHERE id = %s", [trial.strategy]
        ).fetchone()
        assert row is not None
        replies = [Reply(round=r.round, sample=r.sample, content=r.content or "") for r in results]
        following = strategy(row["kind"], row["params"]).proceed(_view(self.connection, trial.task), replies)
        if isinstance(following, Answer):
            return replace(end, state="ok", answer=following.text)
        return [
            NextJob(
                trial=trial.trial,
                version=trial.version,
                round=call.round,
                sample=call.sample,
                model=call.model,
                request=stored_request(call),
                reserve_tokens=100,
                reserve_cost_usd=0.1,
            )
            for call in following
        ]

    def commit_step(self) -> None:
        trial, step = self.steps.pop(self.rng.randint(0, len(self.steps) - 1))
        before = self._trials()[trial.trial]
        for _ in range(self.rng.randint(1, 2)):
            if isinstance(step, list):
                self.do(advance.commit(self.async_connection, jobs=step, finished=[]))
            else:
                self.do(advance.commit(self.async_connection, jobs=[], finished=[step]))
        new = self._see_new_jobs()
        assert not new or (isinstance(step, list) and len(new) == len(step))
        if before in ("pending", "running") and self._trials()[trial.trial] in ("ok", "failed"):
            self._cancel_waiting({trial.trial})

    # A person's moves.

    def pause(self) -> None:
        runs.pause_run(self.connection, run=self.run, reason="a test")
        if self.run_state == "running":
            self.run_state = "paused"
        if self.run_state == "paused":
            for job in self.jobs.values():
                job.state = "pending" if job.state == "queued" else job.state

    def resume(self) -> None:
        assert runs.resume_run(self.connection, run=self.run) == (self.run_state == "paused")
        if self.run_state == "paused":
            self.run_state = "running"

    def cancel(self) -> None:
        runs.cancel_run(self.connection, run=self.run)
        self.run_state = "cancelled"
        self._cancel_waiting({job.trial for job in self.jobs.values()})

    def _cancel_waiting(self, trials: set[int]) -> None:
        for job in self.jobs.values():
            if job.trial in trials and job.state in ("pending", "queued"):
                job.state = "cancelled"

    @invariant()
    def store_is_as_expected(self) -> None:
        if not hasattr(self, "run"):
            return
        rows = self.connection.execute(
            "SELECT id, state, dispatch_no, worker, lost_leases, answer_attempt, "
            "ARRAY(SELECT status FROM call WHERE call.job = job.id ORDER BY attempt) AS calls "
            "FROM job WHERE run = %s ORDER BY id",
            [self.run],
        ).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (number, job.state, job.dispatch_no, job.worker, job.lost, job.answer, job.calls)
            for number, job in sorted(self.jobs.items())
        ]
        check_store(self.connection, self.run)

    def teardown(self) -> None:
        try:
            if hasattr(self, "run") and self.run_state != "cancelled":
                self._finish()
        finally:
            self.connection.execute("DELETE FROM worker")
            self.connection.execute("UPDATE run SET state = 'cancelled'")
            self.connection.close()
            self.do(self.async_connection.close())
            self.loop.close()

    def _finish(self) -> None:
        """Everybody is lost, and a new worker does the rest: nothing may be stuck."""
        self.resume()
        for worker in WORKERS:
            self._lose_lease(worker)
        self.reap()
        self.flush_broker()
        for held in self.held.values():
            held.clear()
        self.connection.execute("UPDATE trial SET lease_until = NULL WHERE run = %s", [self.run])
        self._beat("a")
        for _ in range(40):
            if not any(state in ("pending", "running") for state in self._trials().values()):
                break
            self._work_once()
        else:
            pytest.fail(f"the run is stuck: {self.jobs}")
        late = list(self.sent)
        self.sent.clear()
        for worker, claimed, attempt in late:
            self._settle(worker, claimed, attempt, "ok")
        self.store_is_as_expected()
        assert not [job for job in self.jobs.values() if job.state in OPEN]

    def _work_once(self) -> None:
        lanes = [lane for lane in dispatch.open_lanes(self.connection) if lane.run == self.run]
        for lane in lanes:
            shard = dispatch.dispatch(self.connection, lane=lane, most=50).jobs
            for number, dispatch_no in shard:
                self.jobs[number].state, self.jobs[number].dispatch_no = "running", dispatch_no
                self.jobs[number].worker = self.prefix + "a"
            for claimed in self.do(work.claim(self.async_connection, worker=self.prefix + "a", shard=shard)):
                start = CallStart(
                    trial=claimed.trial,
                    job=claimed.job,
                    dispatch_no=claimed.dispatch_no,
                    attempt=claimed.attempt + 1,
                    model="sim-small",
                    key_fingerprint="k",
                    lease_no=self.lease_nos["a"],
                )
                assert self._commit("a", starts=[start])[0]
                self.jobs[claimed.job].calls.append("started")
                self._settle("a", claimed, start.attempt, "ok")
        self.steps.clear()
        self._decide(lease_s=3600.0)
        while self.steps:
            trial, step = self.steps.pop()
            jobs, finished = (step, []) if isinstance(step, list) else ([], [step])
            self.do(advance.commit(self.async_connection, jobs=jobs, finished=finished))
            self._see_new_jobs()
            if finished:
                self._cancel_waiting({trial.trial})


def _view(connection: Connection, task: int) -> TaskView:
    row = connection.execute("SELECT task_id, goal, category FROM task WHERE id = %s", [task]).fetchone()
    assert row is not None
    return TaskView(**row)


@pytest.fixture
def machine(database_url: str, tmp_path: Path) -> Iterator[type[Store]]:
    with connect(database_url) as connection:
        # Thousands of small commits; what a crash does to them is not this test's question.
        name = database_url.rpartition("/")[2]
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    Store.database_url, Store.folder = database_url, tmp_path
    yield Store
    with suppress(AttributeError):
        del Store.database_url, Store.folder


def test_no_order_of_moves_breaks_the_store(machine: type[Store]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=100,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
