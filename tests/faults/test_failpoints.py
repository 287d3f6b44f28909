"""A process that dies between any two steps loses nothing and counts nothing twice."""

import signal
from pathlib import Path

import pytest

from db.connection import Connection
from paretoken.simulator import SimulatedGateway
from tests.faults.invariants import check
from tests.faults.processes import Cast
from tests.faults.runs import begin, wait_for_the_end

TASKS = 6
CALLS = 6 * 7


@pytest.mark.parametrize(
    ("place", "nth"),
    [
        ("claimed", 2),
        ("granted", 10),
        ("call_started", 10),
        ("answered", 10),
        ("settled", 10),
        ("advance_decided", 2),
        ("advance_committed", 2),
    ],
)
def test_a_worker_that_dies_between_two_steps(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast, place: str, nth: int
) -> None:
    planned = begin(connection, tmp_path, gateway, tasks=TASKS)
    cast.scheduler()
    victim = cast.worker(f"{place}:{nth}")
    assert victim.wait(timeout=60) == -signal.SIGKILL
    cast.worker()
    record = wait_for_the_end(connection, planned.run, gateway)
    found = check(connection, planned.run, record)
    # Whatever is unknown or was paid twice was in flight when the process died.
    assert found.unknown <= cast.concurrency
    assert found.duplicates == 0
    assert found.calls <= found.jobs + found.unknown
    assert CALLS <= found.jobs <= CALLS + TASKS


@pytest.mark.parametrize(
    ("place", "nth"), [("dispatch_committed", 3), ("reaper_marked", 1), ("reaper_released", 2)]
)
def test_a_scheduler_that_dies_between_two_steps(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast, place: str, nth: int
) -> None:
    planned = begin(connection, tmp_path, gateway, tasks=TASKS)
    cast.worker()
    victim = cast.scheduler(f"{place}:{nth}")
    assert victim.wait(timeout=60) == -signal.SIGKILL
    cast.scheduler()
    record = wait_for_the_end(connection, planned.run, gateway)
    found = check(connection, planned.run, record)
    assert (found.unknown, found.duplicates, found.error) == (0, 0, 0)
    assert found.calls == found.jobs


def test_without_a_fault_nothing_is_unknown_or_paid_twice(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast
) -> None:
    planned = begin(connection, tmp_path, gateway, tasks=TASKS)
    cast.scheduler()
    cast.worker()
    cast.worker()
    found = check(connection, planned.run, wait_for_the_end(connection, planned.run, gateway))
    assert (found.unknown, found.duplicates, found.error) == (0, 0, 0)
    assert found.calls == found.jobs == found.served
