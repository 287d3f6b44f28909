"""Runs whose trials have several samples and several rounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from db.connection import Connection
from paretoken.simulator import SimulatedGateway
from scheduler.experiment import load
from scheduler.plan import Plan, plan
from tests.experiments import GATEWAY, write_experiment
from tests.faults.processes import until
from tests.runs import KEY
from workers.keys import read_key

SECRET = "sk-test-1234567890"
MOST_TASKS = 100
CALLS_PER_TASK = 3 + 2 * 2

STRATEGIES = """
[[strategies]]
name = "sc_k3"
kind = "self_consistency"
k = 3

[[strategies]]
name = "debate_2"
kind = "debate"
debaters = 2
rounds = 2
"""
RETRIES = "[retries]\nmax_tries = 50\nbackoff_s = 0.1\nbackoff_max_s = 0.5\nmax_lost_leases = 50\n"


def begin(
    connection: Connection, folder: Path, gateway: SimulatedGateway, *, tasks: int, timeout_s: float = 5
) -> Plan:
    """Plan a run; each task takes `CALLS_PER_TASK` calls, and one more where the debaters do not agree."""
    path = write_experiment(
        folder,
        tasks=tasks,
        gateway=GATEWAY.format(base_url=gateway.base_url).replace(
            "timeout_s = 20", f"timeout_s = {timeout_s}"
        ),
        strategies=STRATEGIES,
        more=RETRIES,
    )
    loaded = load(path)
    return plan(
        connection,
        loaded,
        key_fingerprint=read_key(KEY).fingerprint,
        base_url=loaded.base_url,
    )


def settled(connection: Connection, run: int) -> int:
    """Calls that are over."""
    return count(connection, "SELECT count(*) FROM call WHERE run = %s AND status <> 'started'", [run])


def open_work(connection: Connection, run: int) -> int:
    """Trials, jobs and calls that are not over."""
    return count(
        connection,
        "SELECT (SELECT count(*) FROM trial WHERE run = %(run)s AND state IN ('pending', 'running')) "
        "+ (SELECT count(*) FROM job WHERE run = %(run)s AND state IN ('pending', 'queued', 'running')) "
        "+ (SELECT count(*) FROM call WHERE run = %(run)s AND status = 'started') "
        "+ (SELECT count(*) FROM run WHERE id = %(run)s AND state <> 'finished')",
        {"run": run},
    )


def count(connection: Connection, query: str, parameters: Any = None) -> int:
    """The one number that a query gives."""
    row = connection.execute(query, parameters).fetchone()
    assert row is not None
    return int(next(iter(row.values())))


def wait_for_the_end(
    connection: Connection, run: int, gateway: SimulatedGateway, *, deadline_s: float = 90
) -> Sequence[dict[str, Any]]:
    """Wait until nothing of the run is open; give the gateway's record."""
    until(lambda: open_work(connection, run) == 0, f"the end of run {run}", deadline_s=deadline_s)
    until(lambda: gateway.stats()["in_flight"] == 0, "the end of all requests")
    return gateway.record()
