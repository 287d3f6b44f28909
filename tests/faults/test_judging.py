"""Judgings under faults: a worker that dies between any two of their steps loses no verdict and adds none."""

import signal
from pathlib import Path

import pytest

from db.connection import Connection
from paretoken.simulator import SimulatedGateway
from scheduler.experiment import load
from scheduler.plan import plan
from tests.experiments import GATEWAY, write_experiment
from tests.faults.invariants import check
from tests.faults.processes import Cast
from tests.faults.runs import RETRIES, count, wait_for_the_end
from tests.runs import KEY
from workers.keys import read_key

STRATEGIES = "".join(f'[[strategies]]\nname = "{name}"\nkind = "single"\n' for name in ("a", "b", "c"))
JUDGES = '[[judges]]\nname = "j"\nkind = "pairwise"\n[[judges]]\nname = "l"\nkind = "listwise"\npasses = 2\n'
TASKS = 6
TRIALS = TASKS * 3
# Three pairs in both orders, and two rankings of three.
CALLS = TASKS * (3 * 2 + 2)
VERDICTS = TASKS * (3 + 2 * 3)


@pytest.mark.parametrize(
    ("place", "nth"),
    [
        ("call_started", TRIALS + 10),
        ("answered", TRIALS + 10),
        ("settled", TRIALS + 10),
        ("judged", 1),
        ("judged", 2),
    ],
)
def test_a_worker_that_dies_in_mid_judging(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, cast: Cast, place: str, nth: int
) -> None:
    path = write_experiment(
        tmp_path,
        tasks=TASKS,
        gateway=GATEWAY.format(base_url=gateway.base_url),
        strategies=STRATEGIES + JUDGES,
        more=RETRIES,
    )
    loaded = load(path)
    planned = plan(connection, loaded, key_fingerprint=read_key(KEY).fingerprint, base_url=loaded.base_url)
    cast.scheduler()
    victim = cast.worker(f"{place}:{nth}")
    assert victim.wait(timeout=60) == -signal.SIGKILL
    assert count(connection, "SELECT count(*) FROM judging") > 0
    cast.worker()
    record = wait_for_the_end(connection, planned.run, gateway)
    found = check(connection, planned.run, record)
    assert (found.jobs, found.duplicates) == (TRIALS + CALLS, 0)
    assert found.unknown <= cast.concurrency
    assert count(connection, "SELECT count(*) FROM verdict") == VERDICTS
    assert count(connection, "SELECT count(*) FROM judging WHERE state <> 'ok'") == 0
