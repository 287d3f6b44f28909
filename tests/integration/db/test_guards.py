"""The store's transitions one by one: each guard lets the right move pass, and a wrong one leaves everything as it was.

The table of states and guards, row by row. States are reached by the ordinary moves (`tests.store`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from db import advance, dispatch, runs, work
from db.advance import DueTrial, FinishedTrial
from tests.store import OTHER, WORKER, Store

Move = Callable[[Store], Awaitable[Any]]
Arrange = Callable[[Store], Any]


def sql(statement: str) -> Arrange:
    return lambda s: s.connection.execute(statement)


PAUSED: Arrange = lambda s: runs.pause_run(s.connection, run=s.run, reason="by hand")  # noqa: E731
CANCELLED: Arrange = lambda s: runs.cancel_run(s.connection, run=s.run)  # noqa: E731
LEASE_OVER: Arrange = lambda s: s.vanish()  # noqa: E731
NEXT_LEASE: Arrange = sql("UPDATE worker SET lease_no = 2")
NOTHING: Arrange = lambda s: None  # noqa: E731


# What allowed moves change: (state before, move) -> (job's state and what else must hold).
@pytest.mark.parametrize(
    ("before", "move", "after"),
    [
        # pending -> queued: dispatch_no + 1, with its time
        ("pending", lambda s: s.dispatch(), {"state": "queued", "dispatch_no": 1}),
        ("reaped", lambda s: s.dispatch(), {"state": "queued", "dispatch_no": 2, "attempt": 1}),
        # queued -> running: who runs it; no call row yet
        ("queued", lambda s: s.claim(), {"state": "running", "worker": WORKER, "attempt": 0}),
        # the same worker claims again, since the answer to its first claim was lost
        ("claimed", lambda s: s.claim(), {"state": "running", "worker": WORKER, "attempt": 0}),
        # call started: attempt + 1
        ("claimed", lambda s: s.start(), {"state": "running", "attempt": 1}),
        # running -> ok, failed, or pending for another try
        ("started", lambda s: s.settle(), {"state": "ok", "answer_attempt": 1, "worker": None, "failures": 0}),
        ("started", lambda s: s.fail(), {"state": "pending", "answer_attempt": None, "worker": None, "failures": 1,
                                         "retry_reason": "server_error"}),
        ("started", lambda s: s.fail(next_state="failed"), {"state": "failed", "error": "server_error"}),
        # throttling uses up no try
        ("started", lambda s: s.fail(throttled=True, failures=0), {"state": "pending", "failures": 0}),
        # a late answer is taken where nobody runs the job
        ("reaped", lambda s: s.settle(dispatch_no=1), {"state": "ok", "answer_attempt": 1}),
        ("requeued", lambda s: s.settle(dispatch_no=1), {"state": "ok", "answer_attempt": 1}),
    ],
)  # fmt: skip
async def test_an_allowed_move_is_made(store: Store, before: str, move: Move, after: dict[str, Any]) -> None:
    await store.to(before)
    result = move(store)
    if not isinstance(result, list):
        await result
    job = store.job()
    assert {name: job[name] for name in after} == after


async def hand_back(store: Store, worker: str = WORKER, stale: int = 0) -> None:
    job = store.job()
    [claimed] = [
        work.Claimed(
            job=job["id"], run=store.run, lane=job["lane"], trial=job["trial"], task=0, strategy=0, repeat=1,
            try_=1, round=1, sample=1, dispatch_no=job["dispatch_no"] - stale, attempt=0, failures=0,
            throttled_s=0.0, retry_reason=None, request=None, reserve_tokens=0, reserve_cost_usd=None,
            proven=True,
        )
    ]  # fmt: skip
    await work.hand_back(store.worker, worker=worker, jobs=[(claimed, 0.0)])


async def dispatched(store: Store, most: int = 100) -> None:
    assert store.dispatch(most) == []


async def reaped(store: Store) -> None:
    assert store.reap() == []


async def requeued(store: Store, ago: str) -> None:
    [row] = store.rows(f"SELECT min(dispatched_at) - interval '{ago}' AS before FROM job")
    assert dispatch.unqueue_lost(store.connection, before=row["before"]) == []


async def leased(store: Store) -> None:
    assert await store.lease() == []


async def told(refused: object) -> None:
    assert not refused


# case -> (state before, what happens then, the move that comes too late or by the wrong one)
REFUSED: dict[str, tuple[str, Arrange, Move]] = {
    # claim: dispatch_no matches, run running, queued
    "claim by a stale message": ("queued", NOTHING, lambda s: s.claim(stale=1)),
    "claim by the message before the last": ("requeued", NOTHING, lambda s: s.claim(stale=1)),
    "claim what was never queued": ("pending", NOTHING, lambda s: s.claim()),
    "claim by a second message": ("claimed", NOTHING, lambda s: s.claim(worker=OTHER)),
    "claim an answered job": ("answered", NOTHING, lambda s: s.claim()),
    "claim a failed job": ("failed", NOTHING, lambda s: s.claim()),
    "claim in a paused run": ("queued", PAUSED, lambda s: s.claim()),
    "claim in a cancelled run": ("queued", CANCELLED, lambda s: s.claim()),
    "claim in a run that was paused past the queue": (
        "queued", sql("UPDATE run SET state = 'paused'"), lambda s: s.claim()),
    "claim without a lease": ("queued", sql("DELETE FROM worker"), lambda s: s.claim()),
    "claim when the lease is over": ("queued", LEASE_OVER, lambda s: s.claim()),
    # start: fence (dispatch_no, attempt), own job, live lease, run running, trial open
    "start a queued job": ("queued", NOTHING, lambda s: s.start()),
    "start under an old dispatch": ("claimed", NOTHING, lambda s: s.start(dispatch_no=0)),
    "start an attempt twice": ("started", NOTHING, lambda s: s.start(worker=OTHER, attempt=1)),
    "start an attempt too far": ("claimed", NOTHING, lambda s: s.start(attempt=2)),
    "start another's job": ("claimed", NOTHING, lambda s: s.start(worker=OTHER)),
    "start without a lease": ("claimed", sql("DELETE FROM worker"), lambda s: s.start()),
    "start when the lease is over": ("claimed", LEASE_OVER, lambda s: s.start()),
    "start under the worker's next lease": ("claimed", NEXT_LEASE, lambda s: s.start(lease_no=1)),
    "start in a paused run": ("claimed", PAUSED, lambda s: s.start()),
    "start in a cancelled run": ("claimed", CANCELLED, lambda s: s.start()),
    "start for an ended trial": ("claimed", sql("UPDATE trial SET state = 'failed'"), lambda s: s.start()),
    "start after it was taken over": ("taken over", NOTHING, lambda s: s.start(dispatch_no=1)),
    # hand back: own job, dispatch_no
    "hand back another's job": ("claimed", NOTHING, lambda s: hand_back(s, worker=OTHER)),
    "hand back under an old dispatch": ("taken over", NOTHING, lambda s: hand_back(s, worker=OTHER, stale=1)),
    "hand back what was taken over": ("taken over", NOTHING, lambda s: hand_back(s, worker=WORKER)),
    "hand back an answered job": ("answered", NOTHING, hand_back),
    "hand back a queued job": ("queued", NOTHING, hand_back),
    # settle: ok and error are settled for good; unknown may become one of them, once
    "an answer becomes an error": ("answered", NOTHING, lambda s: s.fail()),
    "an answer becomes another": ("answered", NOTHING, lambda s: s.settle(content="43")),
    "an answer becomes unknown": ("answered", NOTHING, lambda s: s.fail(status="unknown")),
    "an error becomes an answer": ("failed", NOTHING, lambda s: s.settle()),
    "unknown becomes unknown": ("reaped", NOTHING, lambda s: s.fail(status="unknown")),
    "a call that was never started": ("claimed", NOTHING, lambda s: s.settle(attempt=1)),
    # dispatch: run running, not before its time, no hold, budget left
    "dispatch in a paused run": ("pending", PAUSED, dispatched),
    "dispatch in a cancelled run": ("pending", CANCELLED, dispatched),
    "dispatch before its time": (
        "pending", sql("UPDATE job SET not_before = now() + interval '1 hour'"), dispatched),
    "dispatch on a held lane": (
        "pending", sql("UPDATE lane SET hold_until = now() + interval '1 hour'"), dispatched),
    "dispatch beyond the tokens": (
        "pending",
        sql("""UPDATE run SET experiment = jsonb_set(experiment, '{budget,run_tokens}', '10')"""),
        dispatched),
    "dispatch beyond the money": (
        "pending",
        sql("""UPDATE run SET experiment = jsonb_set(experiment, '{budget,run_cost_usd}', '0.0000001')"""),
        dispatched),
    "dispatch what is queued": ("queued", NOTHING, dispatched),
    "dispatch what runs": ("claimed", NOTHING, dispatched),
    "dispatch none": ("pending", NOTHING, lambda s: dispatched(s, most=0)),
    # reap: only where the lease is over
    "reap a live worker": ("started", NOTHING, reaped),
    "reap twice": ("reaped", NOTHING, reaped),
    "requeue what was dispatched later": ("queued", NOTHING, lambda s: requeued(s, "0 seconds")),
    "requeue what runs": ("claimed", NOTHING, lambda s: requeued(s, "-1 hour")),
    # advance: due, nobody's, run not cancelled
    "advance what is not due": ("started", NOTHING, leased),
    "advance in a cancelled run": ("answered", CANCELLED, leased),
    # commands
    "pause a paused run": ("pending", PAUSED, lambda s: told(runs.pause_run(s.connection, run=s.run, reason="x"))),
    "resume a running run": ("queued", NOTHING, lambda s: told(runs.resume_run(s.connection, run=s.run))),
    "resume a cancelled run": ("queued", CANCELLED, lambda s: told(runs.resume_run(s.connection, run=s.run))),
    "cancel a cancelled run": ("queued", CANCELLED, lambda s: told(runs.cancel_run(s.connection, run=s.run))),
    "finish a run with open trials": ("started", NOTHING, lambda s: told(dispatch.finish_runs(s.connection))),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
async def test_a_wrong_move_leaves_everything_as_it_was(store: Store, case: str) -> None:
    before, happens, move = REFUSED[case]
    await store.to(before)
    happens(store)
    seen = store.everything()
    # Versions may grow; what they fence stays.
    await move(store)
    assert without_versions(store.everything()) == without_versions(seen)


def without_versions(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [{k: v for k, v in row.items() if k != "version"} for row in found]
        for table, found in rows.items()
    }


@pytest.mark.parametrize(
    ("before", "state", "answer_attempt"),
    [
        # where nobody runs the job the answer is used (test_an_allowed_move_is_made); elsewhere only the call changes
        ("taken over", "running", None),
        ("sent again", "running", None),
        ("answered again", "ok", 2),
    ],
)
async def test_a_late_answer_beside_another_is_kept_as_a_duplicate(
    store: Store, before: str, state: str, answer_attempt: int | None
) -> None:
    await store.to(before)
    was = store.job()
    await store.settle(dispatch_no=1, attempt=1, content="late")
    assert store.job() == was
    assert (was["state"], was["answer_attempt"]) == (state, answer_attempt)
    assert (store.call(1)["status"], store.call(1)["content"]) == ("ok", "late")
    assert store.call(1)["total_tokens"] == 15


async def test_a_worker_that_got_its_job_once_more_makes_its_call_once(store: Store) -> None:
    await store.to("claimed")
    waiting = store.start_of()
    store.vanish()
    store.reap()
    store.dispatch()
    await store.beat()
    assert len(await store.claim()) == 1
    assert await store.start()
    # What waited since the first claim is asked last; its job and attempt are those of the call that is in flight.
    assert not await store.start(dispatch_no=waiting.dispatch_no, attempt=waiting.attempt)


async def test_a_late_answer_ends_in_the_ledger_only_when_the_run_was_cancelled(store: Store) -> None:
    await store.to("started")
    assert runs.cancel_run(store.connection, run=store.run)
    await store.settle()
    # The call was in flight: it counts, also in the job it was made for.
    assert store.call()["status"] == "ok"
    assert store.trial()["state"] == "cancelled"


@pytest.mark.parametrize("outcome", ["ok", "error"])
async def test_unknown_becomes_known_once(store: Store, outcome: str) -> None:
    await store.to("reaped")
    assert store.call()["status"] == "unknown"
    settle = {"ok": store.settle, "error": store.fail}
    await settle[outcome](dispatch_no=1)
    seen = store.everything()
    for again in settle.values():
        await again(dispatch_no=1, attempt=1)
    assert without_versions(store.everything()) == without_versions(seen)
    assert store.call()["status"] == outcome


async def test_a_late_error_changes_the_call_and_not_the_job(store: Store) -> None:
    await store.to("requeued")
    was = store.job()
    await store.fail(dispatch_no=1, attempt=1)
    assert store.job() == was
    assert (store.call()["status"], store.call()["error"]) == ("error", "server_error")


async def test_waits_are_the_database_s_own(store: Store) -> None:
    await store.to("started")
    await store.fail(delay_s=90.0)
    [wait] = store.rows(
        "SELECT extract(epoch FROM not_before - (SELECT max(finished_at) FROM call))::float8 AS s FROM job"
    )
    assert 89.0 < wait["s"] <= 90.0
    assert store.dispatch() == []


async def test_being_throttled_counts_from_its_first_time(store: Store) -> None:
    await store.to("started")
    await store.fail(throttled=True, failures=0)
    since = store.job()["throttled_since"]
    assert since is not None
    store.dispatch()
    await store.claim()
    await store.start()
    await store.fail(throttled=True, failures=0)
    assert store.job()["throttled_since"] == since
    store.dispatch()
    await store.claim()
    await store.start()
    await store.fail()
    assert store.job()["throttled_since"] is None


async def test_handing_back_uses_up_nothing(store: Store) -> None:
    await store.to("claimed")
    await hand_back(store)
    job = store.job()
    assert (job["state"], job["attempt"], job["failures"], job["worker"]) == ("pending", 0, 0, None)
    assert store.rows("SELECT * FROM call") == []


@pytest.mark.parametrize(
    ("state", "after"),
    [("queued", "pending"), ("claimed", "running"), ("started", "running"), ("answered", "ok")],
)
async def test_pausing_takes_back_what_waits_and_lets_finish_what_runs(
    store: Store, state: str, after: str
) -> None:
    await store.to(state)
    assert runs.pause_run(store.connection, run=store.run, reason="by hand")
    assert store.job()["state"] == after
    assert runs.resume_run(store.connection, run=store.run)
    # Its lanes are proven anew.
    assert store.rows("SELECT proven_at FROM run_lane") == [{"proven_at": None}]


async def test_cancelling_ends_what_is_open_and_counts_what_is_in_flight(
    make_store: Callable[..., Store],
) -> None:
    store = make_store(tasks=2)
    store.dispatch()
    await store.beat()
    await store.claim(1)
    await store.start(1)
    assert runs.cancel_run(store.connection, run=store.run)
    assert [job["state"] for job in store.jobs()] == ["running", "cancelled"]
    await store.fail(1)
    assert [job["state"] for job in store.jobs()] == ["cancelled", "cancelled"]
    assert store.call()["status"] == "error"


async def test_the_reaper_says_unknown_keeps_the_bound_reserved_and_gives_up_on_poison(store: Store) -> None:
    store.connection.execute(
        "UPDATE run SET experiment = jsonb_set(experiment, '{retries,max_lost_leases}', '2')"
    )
    await store.to("reaped")
    job = store.job()
    assert (job["state"], job["lost_leases"], job["retry_reason"]) == ("pending", 1, "unknown_outcome")
    [tally] = store.rows("SELECT unknown_calls, held_tokens FROM tally")
    assert tally == {"unknown_calls": 1, "held_tokens": job["reserve_tokens"]}
    store.dispatch()
    await store.beat(OTHER)
    await store.claim(worker=OTHER)
    store.vanish(OTHER)
    assert store.reap() == [(job["id"], "failed")]
    assert store.trial()["due"] is True


def day_over(store: Store, worker: str) -> None:
    store.connection.execute(
        "UPDATE worker SET lease_until = now() - interval '1 day 1 second' WHERE name = %s", [worker]
    )


@pytest.mark.parametrize("holds", ["claimed", "started", "call of a lost job"])
async def test_a_worker_that_ended_a_day_ago_is_forgotten_when_it_holds_nothing(
    store: Store, holds: str
) -> None:
    await store.to("claimed" if holds == "claimed" else "started")
    if holds == "call of a lost job":
        store.connection.execute("UPDATE job SET state = 'pending', worker = NULL")
    await store.beat(OTHER)
    store.vanish(OTHER)
    day_over(store, WORKER)
    assert dispatch.forget_workers(store.connection) == 0
    store.reap()
    assert dispatch.forget_workers(store.connection) == 1
    assert store.rows("SELECT name FROM worker") == [{"name": OTHER}]


async def test_a_worker_that_was_forgotten_does_not_begin_at_its_old_lease(store: Store) -> None:
    await store.to("started")
    under = store.lease_nos[WORKER]
    day_over(store, WORKER)
    store.reap()
    assert dispatch.forget_workers(store.connection) == 1
    store.dispatch()
    await store.beat()
    assert store.lease_nos[WORKER] == under + 1
    assert len(await store.claim()) == 1
    assert not await store.start(lease_no=under)
    assert await store.start()


async def test_a_broker_that_lost_its_messages_gets_new_ones(store: Store) -> None:
    await store.to("queued")
    [now] = store.rows("SELECT clock_timestamp() AS now")
    assert dispatch.unqueue_lost(store.connection, before=now["now"]) == [store.job()["id"]]
    assert store.dispatch() == [(store.job()["id"], 2)]
    # The old message turns up after all.
    assert await store.claim(stale=1) == []


@pytest.mark.parametrize("proven", [False, True])
async def test_a_lane_tells_whether_its_first_call_was_answered(store: Store, proven: bool) -> None:
    await store.to("started")
    if proven:
        await work.prove_lane(store.worker, run=store.run, lane=store.job()["lane"])
    assert [(lane.proven, lane.queued, lane.running) for lane in store.lanes()] == [(proven, 0, 1)]


async def test_holds_only_grow(store: Store) -> None:
    lane = store.job()["lane"]
    await work.hold_lane(store.worker, lane=lane, hold_s=3600, reason="asked to")
    [held] = store.rows("SELECT hold_until, hold_reason FROM lane")
    await work.hold_lane(store.worker, lane=lane, hold_s=60, reason="asked to wait less")
    assert store.rows("SELECT hold_until, hold_reason FROM lane") == [held]
    assert store.lanes() == []


async def due(store: Store) -> DueTrial:
    await store.to("answered")
    [seen] = await store.lease()
    return seen


STALE: dict[str, Arrange] = {
    "a newer version": sql("UPDATE trial SET version = version + 1"),
    "ended by a person": sql("UPDATE trial SET state = 'review', version = version + 1"),
    "cancelled": CANCELLED,
}


@pytest.mark.parametrize("case", STALE)
@pytest.mark.parametrize("step", ["next round", "answer"])
async def test_an_advance_of_a_trial_that_has_moved_on_changes_nothing(
    store: Store, case: str, step: str
) -> None:
    seen = await due(store)
    STALE[case](store)
    was = store.everything()
    jobs = [store.next_job(seen)] if step == "next round" else []
    finished = [Store.finished(seen)] if step == "answer" else []
    await advance.commit(store.worker, jobs=jobs, finished=finished)
    assert store.everything() == was


async def test_a_next_round_is_written_once(store: Store) -> None:
    seen = await due(store)
    jobs = [store.next_job(seen, sample) for sample in (1, 2)]
    for _ in range(2):
        await advance.commit(store.worker, jobs=jobs, finished=[])
    assert [(job["round"], job["sample"]) for job in store.jobs()] == [(1, 1), (2, 1), (2, 2)]
    assert await store.lease() == []


async def test_a_lease_that_is_over_is_taken_by_the_sweep(store: Store) -> None:
    await store.to("answered")
    assert len(await store.lease(lease_s=-1.0)) == 1
    assert len(await store.lease()) == 1
    assert await store.lease() == []


async def test_a_lease_that_is_handed_back_is_free_unless_the_trial_has_moved_on(store: Store) -> None:
    seen = await due(store)
    await advance.hand_back(store.worker, [replace(seen, version=seen.version + 1)])
    assert await store.lease() == []
    await advance.hand_back(store.worker, [seen])
    assert await store.lease() == [seen]


async def test_an_answer_ends_the_trial_its_open_jobs_and_the_run(make_store: Callable[..., Store]) -> None:
    store = make_store(samples=2)
    store.dispatch()
    await store.beat()
    await store.claim(1)
    await store.start(1)
    await store.fail(1, next_state="failed")
    [seen] = await store.lease()
    ended = FinishedTrial(trial=seen.trial, version=seen.version, state="failed", reason="server_error")
    await advance.commit(store.worker, jobs=[], finished=[ended])
    assert [job["state"] for job in store.jobs()] == ["failed", "cancelled"]
    assert store.trial()["finished_at"] is not None
    assert dispatch.finish_runs(store.connection) == ["test"]
