"""One automatic repetition a trial: who gets it, and what follows when it is used up."""

from collections.abc import Callable

from db import advance, runs, work
from db.advance import FinishedTrial, RerunTrial
from tests.store import WORKER, Store

MakeStore = Callable[..., Store]

CHECKS = [{"try": 1, "kind": "exact", "passed": False, "message": "no", "seen": "41"}]


async def invalid(store: Store, *numbers: int, error: str = "invalid_output") -> None:
    """These jobs' answers, all in one commit, are not what was asked for."""
    settlements = [
        store.answer_of(
            number,
            status="error",
            error=error,
            next_state="pending",
            once=True,
            failures=1,
            retry_reason=error,
        )
        for number in numbers
    ]
    await work.commit(store.worker, worker=WORKER, starts=[], settlements=settlements)


async def started(make_store: MakeStore, *, samples: int) -> Store:
    """One trial whose calls are all under way."""
    store = make_store(samples=samples)
    store.connection.execute("UPDATE run_lane SET proven_at = now()")
    for number in range(1, samples + 1):
        await store.to("started", number)
    return store


async def due(store: Store) -> advance.DueTrial:
    [found] = await advance.lease_due(store.worker, trials=None, most=10, lease_s=60)
    return found


async def test_of_samples_that_fail_together_one_is_asked_again(make_store: MakeStore) -> None:
    store = await started(make_store, samples=3)
    await invalid(store, 2, 3)
    assert [job["state"] for job in store.jobs()] == ["running", "pending", "failed"]
    assert store.trial()["repetition"] == "invalid_output"
    await invalid(store, 1, error="truncated")
    assert [job["state"] for job in store.jobs()] == ["failed", "pending", "failed"]
    assert store.trial()["repetition"] == "invalid_output"
    assert store.trial()["due"] is True


async def test_the_repetition_is_a_retry_and_there_is_no_second_one(store: Store) -> None:
    await store.to("started")
    await invalid(store)
    await invalid(store, 1)
    assert store.job()["state"] == "pending"
    store.dispatch()
    await store.claim()
    assert await store.start()
    assert (store.call(2)["purpose"], store.call(2)["retry_reason"]) == ("retry", "invalid_output")
    await invalid(store, 1)
    assert (store.job()["state"], store.job()["attempt"]) == ("failed", 2)


async def test_a_commit_that_is_sent_again_uses_up_nothing(store: Store) -> None:
    await store.to("started")
    await invalid(store, 1)
    before = store.everything()
    await invalid(store, 1)
    assert store.everything() == before


async def test_a_rerun_has_the_same_slots_in_a_new_try(make_store: MakeStore) -> None:
    store = await started(make_store, samples=2)
    for number in (1, 2):
        await store.settle(number)
    trial = await due(store)
    rerun = RerunTrial(trial=trial.trial, version=trial.version, checks=CHECKS)
    await advance.commit(store.worker, reruns=[rerun])
    await advance.commit(store.worker, reruns=[rerun])  # the commit was lost, or another worker had it too
    jobs = store.jobs()
    assert [(job["try"], job["round"], job["sample"], job["state"]) for job in jobs] == [
        (1, 1, 1, "ok"),
        (1, 1, 2, "ok"),
        (2, 1, 1, "pending"),
        (2, 1, 2, "pending"),
    ]
    assert [job["reserve_tokens"] for job in jobs[2:]] == [job["reserve_tokens"] for job in jobs[:2]]
    row = store.trial()
    assert (row["try"], row["repetition"], row["state"], row["due"]) == (2, "failed_check", "running", False)
    assert row["checks"] == CHECKS
    for number in (3, 4):
        store.dispatch()
        await store.claim(number)
        assert await store.start(number)
        await store.settle(number)
    assert (store.call(1, 3)["purpose"], store.call(1, 3)["retry_reason"]) == ("rerun", "failed_check")
    again = await due(store)
    assert (again.try_, again.repetition) == (2, "failed_check")
    assert [result.sample for result in (await advance.read_replies(store.worker, [again]))[again.trial]] == [
        1,
        2,
    ]
    second = [{**CHECKS[0], "try": 2}]
    finished = FinishedTrial(
        trial=again.trial,
        version=again.version,
        state="review",
        answer="41",
        confirmed_success=False,
        checks=second,
    )
    await advance.commit(store.worker, finished=[finished])
    row = store.trial()
    assert (row["state"], row["confirmed_success"], row["checks"]) == ("review", False, CHECKS + second)
    # Asking for it again by hand is a third try: no job of the second one has failed.
    assert runs.retry_trials(store.connection, run=store.run, state="review") == 1
    row = store.trial()
    assert (row["try"], row["state"], row["answer"], row["confirmed_success"]) == (3, "running", None, None)
    assert (row["due"], row["repetition"]) == (False, "by_hand")
    assert [(job["try"], job["state"]) for job in store.jobs()[4:]] == [(3, "pending"), (3, "pending")]


async def test_files_are_written_for_the_version_that_was_seen_and_by_try(store: Store) -> None:
    await store.to("started")
    await store.settle()
    trial = await due(store)
    for version, content in ((trial.version - 1, b"stale"), (trial.version, b"\0new")):
        file = advance.WrittenFile(trial=trial.trial, version=version, name="out.txt", content=content)
        await advance.commit(store.worker, files=[file])
    assert await advance.read_files(store.worker, [trial]) == {trial.trial: {"out.txt": b"\0new"}}
    rerun = RerunTrial(trial=trial.trial, version=trial.version, checks=CHECKS)
    await advance.commit(store.worker, reruns=[rerun])
    row = store.trial()
    later = advance.DueTrial(**{**vars(trial), "try_": row["try"], "version": row["version"]})
    assert await advance.read_files(store.worker, [later]) == {trial.trial: {}}


async def test_by_hand_a_failed_job_is_done_again_and_paid_answers_stay(store: Store) -> None:
    await store.to("started")
    await invalid(store, 1)
    store.dispatch()
    await store.claim()
    assert await store.start()
    await invalid(store, 1)
    trial = await due(store)
    await advance.commit(
        store.worker, finished=[FinishedTrial(trial=trial.trial, version=trial.version, state="review")]
    )
    assert runs.retry_trials(store.connection, run=store.run, state="review") == 1
    assert [(job["try"], job["state"]) for job in store.jobs()] == [(1, "pending")]
    assert (store.trial()["try"], store.trial()["repetition"]) == (1, "invalid_output")
