"""A run on real servers, a simulated gateway and real worker processes: the ledger equals what was served."""

import signal
from pathlib import Path
from typing import Any

from db.connection import Connection
from paretoken.live import watch
from paretoken.processes import Crew
from paretoken.simulator import SimulatedGateway
from scheduler.progress import progress
from tests.runs import ledger, served, start

STRATEGIES = """
[[strategies]]
name = "baseline"
kind = "single"

[[strategies]]
name = "sc_k10"
kind = "self_consistency"
k = 10
temperature = 0.7
"""


def test_ledger_and_gateway_agree_call_by_call(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    planned = start(connection, tmp_path, gateway, tasks=12, strategies=STRATEGIES)
    assert (planned.trials, planned.jobs) == (24, 132)
    crew.start(workers=2, concurrency=16)
    seen = watch(connection, "test", alive=crew.require_alive)
    rows = ledger(connection, planned)
    assert seen.state == "finished"
    assert seen.trials == {"ok": 24}
    assert {row["response_id"]: row["total_tokens"] for row in rows} == served(gateway)
    assert len(rows) == 132
    assert all(row["status"] == "ok" and row["used"] and row["attempt"] == 1 for row in rows)
    assert (seen.input_tokens, seen.output_tokens) == (
        sum(row["input_tokens"] for row in rows),
        sum(row["output_tokens"] for row in rows),
    )
    per_trial = [row for row in rows if row["strategy"] == "sc_k10" and row["task_id"] == "t00001"]
    assert [row["sample"] for row in per_trial] == list(range(1, 11))


def test_a_killed_worker_costs_no_more_than_its_calls_in_flight(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    gateway.set_faults([{"kind": "slow_body", "probability": 0.5, "duration_s": 0.3}])
    planned = start(connection, tmp_path, gateway, tasks=40, strategies=STRATEGIES)
    crew.start(workers=2, concurrency=8)
    victim = crew.children[1]

    def kill_in_the_middle() -> None:
        if victim.poll() is None and progress(connection, "test").ok_calls >= 100:
            victim.send_signal(signal.SIGKILL)

    seen = watch(connection, "test", alive=kill_in_the_middle)
    assert victim.wait() == -signal.SIGKILL
    rows = ledger(connection, planned)
    assert seen.trials == {"ok": 80}
    known = {row["response_id"]: row["total_tokens"] for row in rows if row["response_id"]}
    unknown = {f"{row['job']}:{row['attempt']}" for row in unknown_calls(connection)}
    lost = {
        row["client_request_id"]: row["total_tokens"]
        for row in gateway.record()
        if row["served"] and row["response_id"] not in known
    }
    # Everything that was served is an answered row, or one of the calls that the ledger lists as unknown.
    assert lost.keys() <= unknown
    assert sum(served(gateway).values()) == sum(known.values()) + sum(lost.values())
    assert len(unknown) <= 8
    assert sum(row["status"] == "ok" and not row["used"] for row in rows) == 0


def unknown_calls(connection: Connection) -> list[dict[str, Any]]:
    return connection.execute("SELECT job, attempt FROM call WHERE status = 'unknown'").fetchall()
