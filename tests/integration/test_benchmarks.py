"""Every benchmark at a tiny size: what it counts is right. How fast it was says nothing here."""

import argparse
import json
import os
from importlib import import_module
from pathlib import Path
from typing import IO

import pytest

from benchmarks import planning, results, stage
from benchmarks.all import FULL
from paretoken.processes import Crew
from paretoken.settings import BROKER_URL, DATABASE_URL
from tests import warm


class _WarmCrew(Crew):
    """One that starts without the imports, and whose death is soon noticed."""

    def __init__(self, **changes: object) -> None:
        super().__init__(lease_s=2, **changes)

    def begin(self, arguments: list[str], environment: dict[str, str], log: IO[bytes]) -> warm.Process:
        return warm.start(arguments, environment, log, stdin=True)


@pytest.fixture
def servers(database_url: str, broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATABASE_URL, database_url)
    monkeypatch.setenv(BROKER_URL, broker_url)
    # Both are set by a stage; so they are put back afterwards.
    monkeypatch.setenv("PARETOKEN_HOME", os.environ.get("PARETOKEN_HOME", ""))
    monkeypatch.setenv(stage.KEY, "")


def measured(name: str, arguments: str) -> list[list[results.Row]]:
    """The tables of a benchmark without their titles."""
    module = import_module(f"benchmarks.{name}")
    parser = argparse.ArgumentParser()
    module.add_options(parser)
    found = results.document(module.measure(parser.parse_args(arguments.split()), _WarmCrew))
    assert "–" in results.markdown(found) or "|" in results.markdown(found)
    return list(json.loads(json.dumps(found))["tables"].values())


@pytest.mark.usefixtures("servers")
def test_overhead() -> None:
    contestants, limits = measured(
        "overhead", "--calls 20 --concurrency 10 --workers 1 --loops client --latency-ms 5"
    )
    assert [row["contestant"] for row in contestants] == [
        "bare loop, the workers' client",
        "Paretoken, 1 worker process",
    ]
    assert {row["calls"] for row in contestants} == {20}
    assert all(row["calls_per_s"] > 0 for row in contestants)
    assert [row["what"] for row in limits] == ["the ledger's own CPU, ms per call"]


@pytest.mark.usefixtures("servers")
def test_in_flight() -> None:
    memory, limits = measured("in_flight", "--calls 8 --workers 1 --latency-s 0.4")
    assert [row["number"] for row in memory] == [1, 1, 0, 2]
    assert memory[0]["pss_mb"] > 0
    assert limits[0]["value"] >= 8
    # One scheduler, and a worker's pool.
    assert 2 <= limits[2]["value"] <= 6


@pytest.mark.usefixtures("servers")
def test_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_SCHEDULER_S", 0.5)
    (figures,) = measured("planning", "--tasks 21 --strategies 10 --samples 10")
    value = {row["what"]: row["value"] for row in figures}
    assert value["jobs queued at once"] == 2000
    assert value["messages in the broker"] == 2000 / 50


@pytest.mark.usefixtures("servers")
def test_reading() -> None:
    commands, runs = measured("reading", "--tasks 5 --strategies 2 --samples 10 --only status")
    assert [row["command"].split()[1] for row in commands] == ["status"]
    # 100 jobs, of which none or one (number 200, 400, …) was made twice.
    assert runs[0]["run_id"] == "large"
    assert runs[0]["calls"] in (100, 101)


@pytest.mark.usefixtures("servers")
def test_growth() -> None:
    by_workers, by_size = measured(
        "growth", "--calls 20 --concurrency 10 --planned 40 100 --latency-ms 5 --workers"
    )
    assert by_workers == []
    assert [row["jobs_planned"] for row in by_size] == [40, 100]


@pytest.mark.usefixtures("servers")
def test_start() -> None:
    (commands,) = measured("start", "--rounds 1 --runs 0")
    assert [row["command"] for row in commands] == ["paretoken --help"]


@pytest.mark.usefixtures("servers")
def test_alternatives() -> None:
    pace, killed, left_out = measured("alternatives", "--calls 20 --concurrency 4 --latency-ms 30")
    assert [row["program"] for row in pace] == [row["program"] for row in killed]
    assert [row["program"] for row in left_out] == ["inspect-ai"]
    ours, processor = killed
    assert ours["requests_without_a_trace"] == 0
    assert ours["answers_known"] >= 10
    assert ours["requests_made_again"] >= ours["of_them_needed"]
    # It begins anew.
    assert processor["requests_made_again"] == 20


@pytest.mark.parametrize("command", FULL.values())
def test_full_sizes_are_options_of_their_benchmark(command: str) -> None:
    module, *arguments = command.split()
    parser = argparse.ArgumentParser()
    import_module(module).add_options(parser)
    assert vars(parser.parse_args(arguments))


def test_a_table_in_markdown(tmp_path: Path) -> None:
    rows = [{"what": "a|b", "calls": 1234, "seconds": 0.25, "met": None}]
    found = {"command": "c", "commit": "x", "cores": 2, "tables": {"T": rows}}
    assert results.markdown(found).split("\n")[4:] == [
        "| what | calls | seconds | met |",
        "|---|---:|---:|---:|",
        "| a\\|b | 1,234 | 0.25 | – |",
    ]
