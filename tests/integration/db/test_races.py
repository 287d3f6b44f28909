"""What happens at once, and what is sent twice: one due trial, one next round, every call counted once."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
from psycopg.rows import dict_row

from analysis.usage import Usage
from db import advance, runs, work
from db.connection import AsyncConnection, Connection
from tests.store import OTHER, WORKER, Store

MakeStore = Callable[..., Store]


@pytest.fixture
async def others(database_url: str) -> AsyncIterator[list[AsyncConnection]]:
    """Two connections of two workers."""
    opened = [
        await psycopg.AsyncConnection.connect(database_url, autocommit=True, row_factory=dict_row)
        for _ in range(2)
    ]
    yield opened
    for connection in opened:
        await connection.close()


async def blocked(connection: Connection, number: int) -> None:
    """Until so many transactions wait for a lock."""
    while True:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
        if row == {"count": number}:
            return
        await asyncio.sleep(0.01)


async def two_started(make_store: MakeStore) -> Store:
    """A trial with two samples, both in flight."""
    store = make_store(samples=2)
    store.dispatch()
    await store.beat()
    for number in (1, 2):
        await store.claim(number)
        assert await store.start(number)
    return store


@pytest.mark.parametrize("outcomes", [("ok", "ok"), ("ok", "failed"), ("failed", "failed")])
async def test_two_last_samples_that_settle_at_once_give_one_due_trial_and_one_next_round(
    make_store: MakeStore, others: list[AsyncConnection], database_url: str, outcomes: tuple[str, str]
) -> None:
    store = await two_started(make_store)
    status = {"ok": "ok", "failed": "error"}
    answers = [
        store.answer_of(number, status=status[outcome], next_state=outcome)
        for number, outcome in enumerate(outcomes, start=1)
    ]
    with psycopg.connect(database_url) as gate:
        # Both are held at the trial's lock, so that both are in the middle of their transactions.
        gate.execute("SELECT FROM trial FOR UPDATE")
        commits = [
            asyncio.create_task(work.commit(connection, worker=WORKER, starts=[], settlements=[answer]))
            for connection, answer in zip(others, answers, strict=True)
        ]
        await blocked(store.connection, 2)
    due = [trials for _, trials in await asyncio.gather(*commits)]
    if outcomes == ("ok", "ok"):
        assert sorted(due) == [[], [store.trial()["id"]]]
    assert store.trial()["due"] is True

    leases = await asyncio.gather(
        *(advance.lease_due(connection, trials=None, most=10, lease_s=60) for connection in others)
    )
    [seen] = [trial for found in leases for trial in found]
    # Both workers may believe that they are to go on: the version lets one of them.
    jobs = [store.next_job(seen)]
    await asyncio.gather(*(advance.commit(connection, jobs=jobs, finished=[]) for connection in others))
    assert [(job["round"], job["sample"]) for job in store.jobs()] == [(1, 1), (1, 2), (2, 1)]


async def test_an_answer_that_comes_while_the_trial_is_advanced_is_seen(
    make_store: MakeStore, others: list[AsyncConnection]
) -> None:
    """A failed sample makes its trial due; the other one settles while the next step is being worked out."""
    store = await two_started(make_store)
    await store.fail(1, next_state="failed")
    [seen] = await store.lease()
    await store.settle(2)
    was = store.everything()
    await advance.commit(others[0], jobs=[], finished=[Store.finished(seen)])
    assert store.everything() == was
    assert store.trial()["due"] is True


async def test_a_batch_whose_commit_was_lost_changes_nothing_when_sent_again(make_store: MakeStore) -> None:
    store = make_store(tasks=4)
    store.dispatch()
    await store.beat()
    for number in (1, 2, 3, 4):
        await store.claim(number)
    for number in (1, 2, 3):
        await store.start(number)
    nothing = Usage(input_tokens=None, output_tokens=None, total_tokens=None)
    batch = {
        "starts": [store.start_of(4)],
        "settlements": [
            store.answer_of(1),
            store.answer_of(
                2, status="error", next_state="pending", error="timeout", failures=1, usage=nothing
            ),
            store.answer_of(
                3, status="unknown", next_state="pending", error="timeout", failures=1, usage=nothing
            ),
        ],
    }
    started, _ = await work.commit(store.worker, worker=WORKER, **batch)
    was = store.everything()
    again, _ = await work.commit(store.worker, worker=WORKER, **batch)
    # The call that was started may be sent, by the first answer or the second.
    assert started == again == {(store.job(4)["id"], 1)}
    for table in ("call", "job", "tally", "run"):
        assert store.everything()[table] == was[table]


async def test_the_same_start_from_two_workers_lets_one_send(
    make_store: MakeStore, others: list[AsyncConnection]
) -> None:
    store = make_store()
    store.dispatch()
    await store.beat()
    await store.beat(OTHER)
    claims = await asyncio.gather(
        *(
            work.claim(connection, worker=name, shard=[(store.job()["id"], 1)])
            for connection, name in zip(others, (WORKER, OTHER), strict=True)
        )
    )
    assert sorted(len(found) for found in claims) == [0, 1]
    start = store.start_of()
    commits = await asyncio.gather(
        *(
            work.commit(connection, worker=name, starts=[start], settlements=[])
            for connection, name in zip(others, (WORKER, OTHER), strict=True)
        )
    )
    assert sorted(len(started) for started, _ in commits) == [0, 1]
    assert len(store.rows("SELECT * FROM call")) == 1


TALLY_OF_CALLS = """
SELECT count(*) FILTER (WHERE status = 'ok') AS ok_calls,
       count(*) FILTER (WHERE status = 'error') AS error_calls,
       count(*) FILTER (WHERE status = 'unknown') AS unknown_calls,
       coalesce(sum(input_tokens), 0) AS input_tokens, coalesce(sum(output_tokens), 0) AS output_tokens,
       round(coalesce(sum(cost_usd), 0)::numeric, 9) AS cost_usd,
       count(*) FILTER (WHERE status = 'ok' AND total_tokens IS NULL) AS unknown_usage_calls,
       coalesce(sum(reserve_tokens) FILTER (WHERE unsaid), 0) AS held_tokens,
       round(coalesce(sum(reserve_cost_usd) FILTER (WHERE unsaid), 0)::numeric, 9) AS held_cost_usd
FROM (SELECT *, status = 'unknown' OR (total_tokens IS NULL AND (status = 'ok' OR http_status BETWEEN 200 AND 299))
        AS unsaid FROM call) AS call
"""
TALLY = """
SELECT sum(ok_calls) AS ok_calls, sum(error_calls) AS error_calls, sum(unknown_calls) AS unknown_calls,
       sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
       round(sum(cost_usd)::numeric, 9) AS cost_usd, sum(unknown_usage_calls) AS unknown_usage_calls,
       sum(held_tokens) AS held_tokens, round(sum(held_cost_usd)::numeric, 9) AS held_cost_usd
FROM tally
"""


UNEVEN = """
SELECT job.id, job.state, job.attempt, answer_attempt, count(call) AS calls,
       count(*) FILTER (WHERE call.attempt = answer_attempt AND status = 'ok') AS answers
FROM job LEFT JOIN call ON call.job = job.id GROUP BY job.id
HAVING job.attempt <> count(call) OR (state = 'ok') <> (answer_attempt IS NOT NULL)
    OR (state = 'ok') <> (count(*) FILTER (WHERE call.attempt = answer_attempt AND status = 'ok') = 1)
"""
"""Jobs whose attempts have gaps, or whose used answer is none."""


async def random_move(store: Store, rng: random.Random) -> None:
    """Any move by anybody: mostly on a job that is in the state for it, and by the worker that holds it."""
    moves = [("dispatch", None), ("claim", "queued"), ("start", "running"), ("settle", "running"),
             ("fail", "running"), ("fail", "running"), ("late", "pending"), ("vanish", None)]  # fmt: skip
    move, state = rng.choices(moves, weights=[6, 12, 12, 2, 3, 3, 3, 1])[0]
    jobs = store.jobs()
    fitting = [index for index, job in enumerate(jobs, start=1) if job["state"] == state]
    number = rng.choice(fitting) if fitting and rng.random() < 0.8 else rng.randrange(len(jobs)) + 1
    job = jobs[number - 1]
    worker = job["worker"] if job["worker"] and rng.random() < 0.9 else rng.choice((WORKER, OTHER))
    late = move == "late" or rng.random() < 0.1
    fence = {
        "dispatch_no": job["dispatch_no"] - late,
        "attempt": max(1, job["attempt"] - rng.randrange(1 + late)),
    }
    tokens = rng.choice((None, 0, 50))
    paid = {
        "usage": Usage(input_tokens=tokens, output_tokens=tokens, total_tokens=tokens and 2 * tokens),
        "cost_usd": rng.choice((None, 0.001)),
        "http_status": rng.choice((None, 200, 429, 500)),
    }
    match move:
        case "dispatch":
            store.dispatch(most=4)
        case "claim":
            await store.claim(number, worker, stale=int(late))
        case "start":
            await store.beat(worker)
            await store.start(number, worker)
        case "settle":
            await store.settle(number, worker, **fence | paid)
        case "fail" | "late":
            status = rng.choice(("error", "unknown"))
            state = rng.choice(("pending", "pending", "pending", "pending", "failed"))
            await store.fail(number, worker, status=status, next_state=state, **fence | paid)
        case "vanish":
            store.vanish(worker)
            store.reap()
    if rng.random() < 0.02 and runs.pause_run(store.connection, run=store.run, reason="by hand"):
        runs.resume_run(store.connection, run=store.run)


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_history_the_tally_equals_the_calls(make_store: MakeStore, seed: int) -> None:
    rng = random.Random(seed)
    store = make_store(tasks=8, samples=2)
    for _ in range(300):
        await random_move(store, rng)
    [calls] = store.rows(TALLY_OF_CALLS)
    [tally] = store.rows(TALLY)
    assert sum(calls[f"{status}_calls"] for status in ("ok", "error", "unknown")) > 20
    assert tally == calls
    assert store.rows(UNEVEN) == []
