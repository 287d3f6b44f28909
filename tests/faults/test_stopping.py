"""How processes end, and how they wake up after they were thought dead."""

import contextlib
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from db.connection import AWAY, Connection
from db.pool import pool
from paretoken.simulator import SimulatedGateway
from tests.faults.invariants import check
from tests.faults.processes import Cast, freeze, thaw, until, wait_until_frozen
from tests.faults.proxy import Proxy
from tests.faults.runs import begin, count, wait_for_the_end

SLOW = {"kind": "slow_body", "duration_s": 1.5}
IN_FLIGHT = "SELECT count(*) FROM call WHERE status = 'started'"
CLAIMED = "SELECT count(*) FROM job WHERE state = 'running'"
CALLS = "SELECT count(*) FROM call"


def test_a_worker_that_is_asked_to_stop_finishes_its_calls_and_hands_back_the_rest(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast
) -> None:
    gateway.set_faults([SLOW])
    planned = begin(connection, tmp_path, gateway, tasks=20)
    cast.concurrency = 6
    cast.scheduler()
    worker = cast.worker()
    until(lambda: count(connection, IN_FLIGHT) >= 4 and count(connection, CLAIMED) > 6, "calls in flight")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=60) == 0
    calls = count(connection, CALLS)
    assert count(connection, CLAIMED) == 0
    assert count(connection, f"{CALLS} WHERE status <> 'ok'") == 0
    assert calls < planned.jobs
    gateway.set_faults([])
    cast.worker()
    found = check(connection, planned.run, wait_for_the_end(connection, planned.run, gateway))
    assert (found.unknown, found.duplicates, found.error) == (0, 0, 0)


def test_a_worker_that_slept_over_its_lease_sends_nothing_that_was_given_away(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast
) -> None:
    planned = begin(connection, tmp_path, gateway, tasks=6, timeout_s=60)
    cast.scheduler()
    sleeper = cast.worker("call_started:10:SIGSTOP")
    wait_until_frozen(sleeper)
    until(lambda: count(connection, f"{CALLS} WHERE status = 'unknown'"), "the reaper takes its calls")
    taken = connection.execute("SELECT job, attempt FROM call WHERE status = 'unknown'").fetchall()
    thaw(sleeper)
    record = wait_for_the_end(connection, planned.run, gateway)
    found = check(connection, planned.run, record)
    not_sent = connection.execute("SELECT job, attempt FROM call WHERE error = 'not_sent'").fetchall()
    asked = {request["client_request_id"] for request in record}
    assert not_sent
    assert all(row in taken for row in not_sent)
    assert not [row for row in not_sent if f"{row['job']}:{row['attempt']}" in asked]
    assert found.duplicates <= len(taken) - len(not_sent)


def test_answers_that_come_after_the_lease_are_used_or_counted_as_duplicates(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast
) -> None:
    gateway.set_faults([SLOW])
    planned = begin(connection, tmp_path, gateway, tasks=6, timeout_s=60)
    cast.scheduler()
    sleeper = cast.worker()
    until(lambda: gateway.stats()["in_flight"] >= 4, "calls in flight")
    freeze(sleeper)
    held = count(connection, IN_FLIGHT)
    until(lambda: count(connection, f"{CALLS} WHERE status = 'unknown'"), "the reaper takes its calls")
    gateway.set_faults([])
    cast.worker()
    until(lambda: count(connection, f"{CALLS} WHERE retry_reason = 'unknown_outcome'"), "another worker")
    thaw(sleeper)
    record = wait_for_the_end(connection, planned.run, gateway)
    # The run may end on the other worker's answers before the sleeper has told of its own.
    until(lambda: not count(connection, f"{CALLS} WHERE status = 'unknown'"), "the late answers")
    found = check(connection, planned.run, record)
    assert found.duplicates <= held


@pytest.mark.parametrize("half_sent", [False, True])
async def test_a_process_that_falls_asleep_in_a_transaction_lets_go_of_its_locks(
    connection: Connection, database_url: str, half_sent: bool
) -> None:
    let_go = False
    with pytest.raises(AWAY):
        async with (
            pool(database_url, size=1, application="test") as opened,
            opened.connection() as asleep,
            asleep.pipeline() if half_sent else contextlib.nullcontext(),
        ):
            await asleep.execute("BEGIN")
            locked = await asleep.execute("SELECT id FROM run FOR UPDATE")
            await locked.fetchall()
            connection.execute("SET lock_timeout = '60s'")
            with connection.transaction():
                connection.execute("LOCK TABLE run")
            let_go = True
            again = await asleep.execute("SELECT 1")
            await again.fetchall()
    assert let_go


def test_a_scheduler_stops_while_the_broker_is_away(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast
) -> None:
    with Proxy(target=cast.services.broker_url) as broker:
        scheduler = cast.scheduler(services=replace(cast.services, broker_url=broker.url))
        until(lambda: "Scheduling." in cast.log(scheduler), "the scheduler is at work")
        broker.close()
        planned = begin(connection, tmp_path, gateway, tasks=6, timeout_s=60)
        until(lambda: "The broker is away" in cast.log(scheduler), "the scheduler sees it")
        scheduler.send_signal(signal.SIGTERM)
        assert scheduler.wait(timeout=60) == 0
    cast.scheduler()
    cast.worker()
    found = check(connection, planned.run, wait_for_the_end(connection, planned.run, gateway))
    assert found.calls == found.jobs
