"""A fault of the worker's own while a call is out: it may have been paid, and people have to see it."""

import pytest

from db.work import CallStart
from workers.engine import Engine, EngineSettings
from workers.gateway import Disposition, Outcome
from workers.lease import Lease


async def test_a_call_that_fails_by_a_fault_of_ours_is_unknown_and_pauses_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lease, "still", lambda *_: True)
    engine = Engine(
        EngineSettings(database_url="postgresql://h/d", broker_url="redis://127.0.0.1:1/0", concurrency=1)
    )
    start = CallStart(trial=1, job=7, dispatch_no=1, attempt=1, model="m", key_fingerprint="k", lease_no=1)

    async def send() -> Outcome:
        raise RecursionError("too deep")

    outcome = await engine._call(send, start)
    assert (outcome.status, outcome.disposition) == ("unknown", Disposition.PAUSE_RUN)
    assert outcome.message == "Job 7 cannot be run: RecursionError: too deep. See the worker's log."
    assert engine._busy() == (0, 0)
