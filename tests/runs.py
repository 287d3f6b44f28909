"""Runs of small experiments on real servers, for tests."""

import json
from pathlib import Path
from typing import Any

from db.connection import Connection
from db.ledger import export_lines
from paretoken.simulator import SimulatedGateway
from scheduler.experiment import load
from scheduler.plan import Plan, plan
from tests.experiments import GATEWAY, write_experiment
from workers.keys import read_key

KEY = "TEST_GATEWAY_KEY"


def start(
    connection: Connection, folder: Path, gateway: SimulatedGateway, *, run_id: str = "test", **changes: Any
) -> Plan:
    """Plan a small experiment on this gateway; `changes` go to `write_experiment`."""
    loaded = load(
        write_experiment(folder, gateway=GATEWAY.format(base_url=gateway.base_url), **changes), run_id=run_id
    )
    return plan(connection, loaded, key_fingerprint=read_key(KEY).fingerprint, base_url=loaded.base_url)


def ledger(connection: Connection, planned: Plan) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export_lines(connection, run=planned.run)]


def served(gateway: SimulatedGateway) -> dict[str, int]:
    """response_id -> total tokens of everything the gateway has served, answers that were lost on the way included."""
    return {row["response_id"]: row["total_tokens"] for row in gateway.record() if row["served"]}
