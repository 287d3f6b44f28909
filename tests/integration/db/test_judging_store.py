"""Judgings in Postgres: planned once, finished for the version that was seen, void when answers change."""

from pathlib import Path
from typing import Any

import pytest

from db import advance, judging, work
from db.connection import AsyncConnection, Connection
from db.dispatch import finish_runs, open_lanes, stuck_on_budget
from db.judging import FinishedJudging, plan_judgings
from db.runs import cancel_run, retry_trials
from scheduler.experiment import load
from scheduler.judges import judge_plans
from scheduler.plan import plan
from scheduler.progress import progress
from tests.experiments import write_experiment
from tests.store import OTHER, WORKER, Store
from workers.judges import FRAME_BYTES

STRATEGIES = "".join(f'[[strategies]]\nname = "{name}"\nkind = "single"\n' for name in ("a", "b", "c"))
PAIRWISE = '[[judges]]\nname = "j"\nkind = "pairwise"\n'
LISTWISE = '[[judges]]\nname = "l"\nkind = "listwise"\npasses = 1\n'


async def answered(
    connection: Connection,
    worker: AsyncConnection,
    folder: Path,
    *,
    judges: str = PAIRWISE,
    unanswered: tuple[int, ...] = (),
    **changes: Any,
) -> Store:
    """A run of three strategies on one task, all of whose trials are over; those numbered have no answer."""
    path = write_experiment(folder, **{"tasks": 1, "strategies": STRATEGIES + judges} | changes)
    planned = plan(connection, load(path), key_fingerprint="simulated", base_url="http://127.0.0.1:1")
    store = Store(connection, worker, planned)
    await store.beat()
    while store.dispatch():  # the first call of a lane goes alone
        await end_trials(store, unanswered)
    return store


async def end_trials(store: Store, unanswered: tuple[int, ...] = ()) -> None:
    for number, job in enumerate(store.jobs(), start=1):
        if job["state"] == "queued" and job["trial"]:
            await store.claim(number)
            await store.start(number)
            await store.settle(number)
    connection = store.connection
    connection.execute("UPDATE run_lane SET proven_at = now()")
    seen = await store.lease()
    first = min(row["id"] for row in store.rows("SELECT id FROM trial"))
    await advance.commit(
        store.worker,
        finished=[
            store.finished(one)
            if one.trial - first + 1 not in unanswered
            else advance.FinishedTrial(trial=one.trial, version=one.version, state="failed", reason="outage")
            for one in seen
        ],
    )


def planned(store: Store) -> list[int]:
    return plan_judgings(store.connection, plans=judge_plans, frame_bytes=FRAME_BYTES)


def judgings(store: Store) -> list[dict[str, Any]]:
    return store.rows("SELECT * FROM judging ORDER BY id")


async def reply(store: Store, *, most: int = 100) -> None:
    """Answer calls of judges, in the order of planning."""
    store.dispatch()
    for number, job in enumerate(store.jobs(), start=1):
        if job["judging"] and job["state"] == "queued" and most:
            most -= 1
            [claimed] = await store.claim(number)
            start = store.start_of(number, judging=claimed.judging)
            started, _ = await work.commit(store.worker, worker=WORKER, starts=[start], settlements=[])
            assert started
            await store.settle(number, judging=claimed.judging)


def verdict_of(seen: judging.DueJudging) -> FinishedJudging:
    winner, loser = seen.question[:2]
    return FinishedJudging(
        judging=seen.judging,
        version=seen.version,
        state="ok",
        readings=[],
        verdicts=[{"winner": winner, "loser": loser, "tie": False, "items": 2}],
    )


async def examine(store: Store) -> int:
    due = await judging.lease_due(store.worker, most=100, lease_s=60)
    await judging.finish(store.worker, [verdict_of(seen) for seen in due])
    return len(due)


async def test_planning_waits_for_all_trials_and_happens_once(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path
) -> None:
    path = write_experiment(tmp_path, tasks=1, strategies=STRATEGIES + PAIRWISE)
    made = plan(connection, load(path), key_fingerprint="simulated", base_url="http://127.0.0.1:1")
    store = Store(connection, worker_connection, made)
    assert planned(store) == []
    await store.beat()
    while store.dispatch():
        await end_trials(store)
    assert planned(store) == [made.run]
    before = store.everything()
    assert planned(store) == []
    assert store.everything() == before
    assert [(row["number"], row["state"], len(row["question"])) for row in judgings(store)] == [
        (1, "pending", 2), (2, "pending", 2), (3, "pending", 2),
    ]  # fmt: skip
    judged = [job for job in store.jobs() if job["judging"]]
    assert [(job["round"], job["sample"]) for job in judged] == [(n, s) for n in (1, 2, 3) for s in (1, 2)]


@pytest.mark.parametrize(
    ("judges", "pairs"),
    [
        (PAIRWISE, [(1, 2), (1, 3), (2, 3)]),
        (PAIRWISE + 'pairs = "neighbours"\n', [(1, 2), (2, 3)]),
        (PAIRWISE + "pairs = 9\n", [(1, 2), (1, 3), (2, 3)]),
        (LISTWISE, [(1, 2, 3)]),
        ('[[judges]]\nname = "r"\nkind = "rubric"\n', [(1, 2, 3)]),
    ],
)
async def test_which_answers_are_compared(
    connection: Connection,
    worker_connection: AsyncConnection,
    tmp_path: Path,
    judges: str,
    pairs: list[tuple[int, ...]],
) -> None:
    store = await answered(connection, worker_connection, tmp_path, judges=judges)
    planned(store)
    first = min(row["id"] for row in store.rows("SELECT id FROM trial"))
    assert sorted(tuple(id_ - first + 1 for id_ in row["question"]) for row in judgings(store)) == pairs


async def test_a_trial_without_an_answer_is_not_judged(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path
) -> None:
    store = await answered(connection, worker_connection, tmp_path, unanswered=(2,))
    planned(store)
    # Of the pairs ab, ac, bc only ac is left.
    assert [len(row["question"]) for row in judgings(store)] == [2]
    [bound] = progress(connection, "test").judging_bounds
    assert (bound["judgings"], bound["calls"]) == (1, 2)


async def test_a_judging_is_due_when_none_of_its_calls_is_open_and_is_finished_for_the_version_seen(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path
) -> None:
    store = await answered(connection, worker_connection, tmp_path, judges=PAIRWISE + "pairs = 1\n")
    planned(store)
    await reply(store, most=1)
    assert await judging.lease_due(store.worker, most=10, lease_s=60) == []
    await reply(store)
    [seen] = await judging.lease_due(store.worker, most=10, lease_s=60)
    # Leased, it is nobody else's.
    assert await judging.lease_due(store.worker, most=10, lease_s=60) == []
    await judging.hand_back(store.worker, [seen])
    assert await judging.lease_due(store.worker, most=10, lease_s=60) == [seen]
    await judging.finish(store.worker, [verdict_of(seen)])
    finished = store.everything(), store.rows("SELECT * FROM verdict")
    await judging.finish(store.worker, [verdict_of(seen)])
    assert (store.everything(), store.rows("SELECT * FROM verdict")) == finished
    assert [row["state"] for row in judgings(store)] == ["ok"]
    assert len(finished[1]) == 1


async def test_a_run_is_finished_after_its_judgings(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path
) -> None:
    store = await answered(connection, worker_connection, tmp_path)
    assert finish_runs(connection) == []
    planned(store)
    await reply(store)
    assert finish_runs(connection) == []
    assert await examine(store) == 3
    assert finish_runs(connection) == ["test"]


async def test_a_vanished_worker_gives_its_calls_of_judges_back(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path
) -> None:
    store = await answered(
        connection, worker_connection, tmp_path, judges=PAIRWISE, more="[retries]\nmax_lost_leases = 2\n"
    )
    planned(store)
    number = 4
    for expected in ("pending", "failed"):
        store.dispatch()
        await store.beat()
        [claimed] = await store.claim(number)
        start = store.start_of(number, judging=claimed.judging)
        await work.commit(store.worker, worker=WORKER, starts=[start], settlements=[])
        store.vanish()
        store.reap()
        assert store.job(number)["state"] == expected
    # The other call of the judging is still to come; then what there is can be read, and no trial has failed.
    await store.beat()
    await reply(store)
    assert await examine(store) == 3
    assert {row["state"] for row in store.rows("SELECT state FROM trial")} == {"ok"}


async def test_a_call_of_a_judge_is_handed_back_like_any_other(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path
) -> None:
    store = await answered(connection, worker_connection, tmp_path)
    planned(store)
    store.dispatch()
    [job, *_] = await store.claim(4)
    assert (job.trial, job.strategy, job.question and job.question.answers) == (None, None, ["42", "42"])
    await work.hand_back(store.worker, worker=WORKER, jobs=[(job, 0.0)])
    assert store.job(4)["state"] == "pending"
    store.dispatch()
    [job] = await store.claim(4)
    cancel_run(connection, run=store.run)
    await work.hand_back(store.worker, worker=WORKER, jobs=[(job, 0.0)])
    assert {row["state"] for row in judgings(store)} == {"cancelled"}
    assert {row["state"] for row in store.jobs() if row["judging"]} == {"cancelled"}
    assert not await store.claim(5, OTHER)


async def test_the_budget_of_a_trial_is_no_judges(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path
) -> None:
    # One call of the strategy fits (goal of under 60 bytes, 200 tokens of answer), one of the judge would not.
    store = await answered(connection, worker_connection, tmp_path, more="[budget]\ntrial_tokens = 600\n")
    planned(store)
    bound = min(job["reserve_tokens"] for job in store.jobs() if job["judging"])
    assert bound > 600
    assert len(store.dispatch()) == 6


async def test_the_budget_of_the_run_is(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path
) -> None:
    # Three answers of 15 tokens were paid, and a call of the judge may take more than the rest.
    store = await answered(connection, worker_connection, tmp_path, more="[budget]\nrun_tokens = 800\n")
    planned(store)
    assert store.dispatch() == []
    [lane] = open_lanes(connection)
    assert stuck_on_budget(connection, lane=lane)


@pytest.mark.parametrize(("judges", "kept"), [(PAIRWISE, 1), (LISTWISE, 0)])
async def test_what_was_said_of_an_answer_is_void_when_it_is_made_anew(
    connection: Connection, worker_connection: AsyncConnection, tmp_path: Path, judges: str, kept: int
) -> None:
    store = await answered(connection, worker_connection, tmp_path, judges=judges)
    planned(store)
    await reply(store)
    asked = await examine(store)
    [one, *_] = store.rows("SELECT id FROM trial ORDER BY id")
    connection.execute("UPDATE trial SET state = 'review' WHERE id = %s", [one["id"]])
    assert retry_trials(connection, run=store.run, state="review") == 1
    assert [row["state"] for row in judgings(store)].count("ok") == kept
    assert len(store.rows("SELECT id FROM verdict")) == kept
    store.dispatch()
    await end_trials(store)
    planned(store)
    # Only what is void is asked again, under numbers of its own.
    assert [row["state"] for row in judgings(store)].count("pending") == asked - kept
    assert len({row["number"] for row in judgings(store)}) == 2 * asked - kept
    [bound] = progress(connection, "test").judging_bounds
    assert bound["judgings"] == asked
