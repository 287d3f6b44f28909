"""Metrics of a real scheduler and a real worker: they say what the ledger says."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from db.connection import Connection
from paretoken.errors import InputError
from paretoken.live import watch
from paretoken.processes import Crew, worker
from paretoken.settings import BROKER_URL, DATABASE_URL
from paretoken.simulator import SimulatedGateway
from scheduler.metrics import take_snapshot
from tests.integration.scraping import address, scrape
from tests.runs import ledger, start

Samples = dict[tuple[str, tuple[str, ...]], float]
NOWHERE = "127.0.0.1:1"


def samples(text: str) -> Samples:
    """(name, label values) -> value"""
    assert "Task" not in text
    return {
        (sample.name, tuple(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_and_ledger_agree(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    gateway.set_faults([{"kind": "server_error", "count": 2}, {"kind": "missing_usage", "count": 1}])
    planned = start(connection, tmp_path, gateway, tasks=10)
    crew.logs.mkdir()
    crew._spawn("scheduler", ["scheduler", "--lease-s=3", "--metrics-port=0"])
    crew._spawn("worker-1", ["worker", "--concurrency=4", "--lease-s=3", "--metrics-port=0"])
    assert watch(connection, "test", alive=crew.require_alive).state == "finished"
    rows = ledger(connection, planned)
    seen = samples(scrape(crew, "worker-1"))
    model = "sim-small"
    assert seen["paretoken_calls_total", ("none", model, "ok")] == 10
    assert seen["paretoken_calls_total", ("server_error", model, "error")] == 2
    for direction in ("input", "output"):
        told = seen["paretoken_tokens_total", (direction, model)]
        assert told == sum(row[f"{direction}_tokens"] or 0 for row in rows)
    assert seen["paretoken_calls_without_usage_total", (model,)] == 1
    assert seen["paretoken_calls_without_cost_total", (model,)] == 1
    cost_usd = sum(row["cost_usd"] or 0 for row in rows)
    assert seen["paretoken_cost_usd_total", (model,)] == pytest.approx(cost_usd)
    assert seen["paretoken_call_latency_seconds_count", (model, "ok")] == 10
    assert seen["paretoken_limiter_wait_seconds_count", (model, "granted")] >= 12
    assert seen["paretoken_worker_lease_seconds", ()] > 0
    seen = samples(scrape(crew, "scheduler"))
    assert seen["paretoken_jobs_dispatched_total", ()] >= 12
    # The last round of the loop may not be counted yet; what stands in the database is.
    assert seen["paretoken_runs", ("running",)] == 0
    assert seen["paretoken_workers", ()] == 1
    assert seen["paretoken_scheduler_leading", ()] == seen["paretoken_database_up", ()] == 1

    for name, service in (("worker-1", "worker"), ("scheduler", "scheduler")):
        assert health(service, address(crew, name)) == 0
    # One that is told nothing of a lease is not well.
    assert health("worker", address(crew, "scheduler")) != 0


def health(service: str, url: str) -> int:
    """Exit code of the check that Compose makes, at this address."""
    compose = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())
    _, _, *command = compose["services"][service]["healthcheck"]["test"]
    asked = [part.replace("http://127.0.0.1:9100/metrics", url) for part in command]
    return subprocess.run([sys.executable, *asked], check=False, stderr=subprocess.DEVNULL).returncode


def test_a_snapshot_tells_lanes_and_servers_that_are_away(
    connection: Connection, database_url: str, broker_url: str, tmp_path: Path, gateway: SimulatedGateway
) -> None:
    start(connection, tmp_path, gateway, tasks=10)
    connection.execute("UPDATE lane SET hold_until = now() + interval '1 hour'")
    seen = take_snapshot(database_url, broker_url)
    [lane] = seen.lanes
    assert (seen.runs, seen.jobs, seen.queue_messages) == ({"running": 1}, {"pending": 10}, 0)
    assert lane.model == "sim-small"
    assert 0 < lane.hold_s <= 3600
    assert lane.view is not None
    without_broker = take_snapshot(database_url, f"redis://{NOWHERE}/0")
    assert (without_broker.broker_up, without_broker.jobs) == (False, {"pending": 10})
    assert without_broker.lanes[0].view is None
    without_database = take_snapshot(f"postgresql://{NOWHERE}/d", broker_url)
    assert (without_database.database_up, without_database.broker_up) == (False, True)


def test_a_port_that_is_taken_is_said(
    database_url: str, broker_url: str, gateway: SimulatedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATABASE_URL, database_url)
    monkeypatch.setenv(BROKER_URL, broker_url)
    port = int(gateway.base_url.split(":")[2].split("/")[0])
    with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port}: .*in use.*--metrics-port"):
        worker(metrics_port=port)
