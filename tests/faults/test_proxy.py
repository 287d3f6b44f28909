"""A network between the processes and their servers that is slow, breaks, or loses exactly one answer."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from db.connection import Connection
from paretoken.simulator import SimulatedGateway
from tests.faults.invariants import Findings, check
from tests.faults.processes import Cast, until
from tests.faults.proxy import COMMIT, Proxy
from tests.faults.runs import begin, settled, wait_for_the_end

TASKS = 8

# Part of a statement's text, which Postgres is sent whole the first times that it is used.
CLAIM = b"SET state = 'running', worker"
HAND_BACK = b"'cancelled' ELSE 'pending' END,\n    worker = NULL"
DISPATCH = b"SET state = 'queued'"
HEARTBEAT = b"INSERT INTO worker"
LEASE_TRIALS = b"UPDATE trial SET lease_until = now()"


@pytest.fixture
def postgres(cast: Cast) -> Iterator[Proxy]:
    with Proxy(target=cast.services.database_url) as proxy:
        yield proxy


@pytest.fixture
def broker(cast: Cast) -> Iterator[Proxy]:
    with Proxy(target=cast.services.broker_url) as proxy:
        yield proxy


def nothing_happened(found: Findings) -> None:
    assert (found.unknown, found.duplicates, found.error) == (0, 0, 0)
    assert found.calls == found.jobs == found.served


@pytest.mark.parametrize(("needle", "times"), [(COMMIT, 4), (CLAIM, 2), (LEASE_TRIALS, 2), (HEARTBEAT, 1)])
def test_a_worker_that_never_hears_of_its_commit(
    connection: Connection,
    tmp_path: Path,
    gateway: SimulatedGateway,
    cast: Cast,
    postgres: Proxy,
    needle: bytes,
    times: int,
) -> None:
    planned = begin(connection, tmp_path, gateway, tasks=TASKS)
    cast.scheduler()
    worker = cast.worker(services=replace(cast.services, database_url=postgres.url))
    for number in range(times):
        postgres.swallow_answer(needle)
        until(lambda: postgres.swallowed > number, f"answer {number} is swallowed")  # noqa: B023
    record = wait_for_the_end(connection, planned.run, gateway)
    assert postgres.swallowed == times
    assert worker.poll() is None
    nothing_happened(check(connection, planned.run, record))


def test_a_scheduler_that_never_hears_of_its_commit(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast, postgres: Proxy
) -> None:
    planned = begin(connection, tmp_path, gateway, tasks=TASKS)
    postgres.swallow_answer(DISPATCH)
    cast.scheduler(services=replace(cast.services, database_url=postgres.url))
    until(lambda: postgres.swallowed, "an answer is swallowed")
    cast.worker()
    record = wait_for_the_end(connection, planned.run, gateway)
    nothing_happened(check(connection, planned.run, record))


def test_an_outage_in_which_all_calls_finish(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast, postgres: Proxy
) -> None:
    """What was answered meanwhile is settled before anybody takes the worker for dead."""
    gateway.set_faults([{"kind": "slow_body", "duration_s": 16.0}])
    cast.lease_s = 6.0
    planned = begin(connection, tmp_path, gateway, tasks=TASKS, timeout_s=60)
    far = replace(cast.services, database_url=postgres.url)
    cast.scheduler(services=far)
    cast.worker(services=far)
    until(lambda: gateway.stats()["in_flight"] >= 4, "calls in flight")
    postgres.close()
    gateway.set_faults([])
    until(lambda: gateway.stats()["in_flight"] == 0, "the gateway has answered")
    postgres.open()
    record = wait_for_the_end(connection, planned.run, gateway)
    nothing_happened(check(connection, planned.run, record))


def test_cuts_and_latency(
    connection: Connection,
    tmp_path: Path,
    gateway: SimulatedGateway,
    cast: Cast,
    postgres: Proxy,
    broker: Proxy,
) -> None:
    postgres.latency_s = broker.latency_s = 0.01
    planned = begin(connection, tmp_path, gateway, tasks=2 * TASKS)
    far = replace(cast.services, database_url=postgres.url, broker_url=broker.url)
    cast.scheduler(services=far)
    cast.worker(services=far)
    for calls, proxy in enumerate((postgres, broker, postgres, broker, postgres), start=1):
        until(lambda: settled(connection, planned.run) >= 12 * calls, f"{12 * calls} calls")  # noqa: B023
        proxy.cut()
    record = wait_for_the_end(connection, planned.run, gateway)
    nothing_happened(check(connection, planned.run, record))
