"""Trials that fail their checks twice, and the person who decides on them with `paretoken review`."""

import json
import subprocess
import sys
from typing import Any

import pytest

from db.connection import Connection
from tests.acceptance.conftest import CommandLine
from tests.experiments import write_experiment

RERUNS = "reruns_on_failed_check = 1"


@pytest.fixture
def run(paretoken: CommandLine) -> CommandLine:
    """A run of 20 tasks of which a small model gets some wrong twice."""
    file = write_experiment(paretoken.folder, tasks=20, top=RERUNS)
    done = paretoken("run", file, "--no-page", "--out", "out")
    assert done.returncode in (0, 1), done.stderr
    return paretoken


def listed(paretoken: CommandLine) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(paretoken.must("review", "test", "--json"))
    return rows


def test_a_person_decides_what_failed_twice(run: CommandLine, connection: Connection) -> None:
    waiting = listed(run)
    assert len(waiting) >= 3
    for row in waiting:
        assert row["try"] == 2
        assert row["reason"].startswith("failed_check: number: expected ")
        assert [(check["try"], check["passed"]) for check in row["checks"]] == [(1, False), (2, False)]
    # Tokens of both tries stay in the ledger, each under its purpose.
    rows = [json.loads(line) for line in (run.folder / "out" / "ledger.jsonl").read_text().splitlines()]
    again = {row["task_id"] for row in rows if row["try"] == 2}
    assert {row["task_id"] for row in waiting} < again or {row["task_id"] for row in waiting} == again
    assert {(row["try"], row["purpose"], row["retry_reason"], row["used"]) for row in rows} == {
        (1, "first", None, True),
        (2, "rerun", "failed_check", True),
    }
    header, values = (run.folder / "out" / "strategy_tokens.csv").read_text().splitlines()
    tokens = dict(zip(header.split(","), values.split(","), strict=True))
    first = sum(row["total_tokens"] for row in rows if row["try"] == 1) / 20
    rerun = sum(row["total_tokens"] for row in rows if row["try"] == 2) / 20
    assert float(tokens["avg_first_tokens"]) == pytest.approx(first)
    assert float(tokens["avg_total_tokens"]) == pytest.approx(first + rerun)
    assert float(tokens["avg_retry_tokens"]) == pytest.approx(rerun)

    # By option.
    chosen = waiting[0]["trial"]
    assert (
        run.must("review", "test", "--trial", str(chosen), "--verdict", "pass") == f"Trial {chosen}: pass.\n"
    )
    assert decided(connection, chosen) == ("ok", True)
    twice = run("review", "test", "--trial", str(chosen), "--verdict", "fail")
    assert (twice.returncode, "is not in review" in twice.stderr) == (2, True)
    alone = run("review", "test", "--trial", str(chosen))
    assert (alone.returncode, "go together" in alone.stderr) == (2, True)

    # By answering: one fails, a word that is none is asked for again, one is skipped, then the input ends.
    answered = subprocess.run(
        [sys.executable, "-m", "paretoken", "review", "test"],
        cwd=run.folder,
        env=run.environment | {"HOME": str(run.folder)},
        input="fail\nperhaps\ns\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f"1 of {len(waiting) - 1} decided" in answered.stdout
    assert "Goal:\n    Task " in answered.stdout
    assert "Check number failed (try 2): expected " in answered.stdout
    assert decided(connection, waiting[1]["trial"]) == ("ok", False)
    assert [row["trial"] for row in listed(run)] == [row["trial"] for row in waiting[2:]]

    # Or they are tried once more.
    run.must("retry", "test", "--status", "review")
    assert listed(run) == []
    done = run("run", "--no-page", run.folder / "experiment.toml", "--out", "out")
    assert done.returncode in (0, 1), done.stderr
    rows = [json.loads(line) for line in (run.folder / "out" / "ledger.jsonl").read_text().splitlines()]
    assert {(row["purpose"], row["retry_reason"]) for row in rows if row["try"] == 3} == {
        ("rerun", "by_hand")
    }
    assert len([row for row in rows if row["try"] == 3]) == len(waiting) - 2


def decided(connection: Connection, trial: int) -> tuple[str, bool | None]:
    [row] = connection.execute(
        "SELECT state, confirmed_success, detail, reason FROM trial WHERE id = %s", [trial]
    ).fetchall()
    assert row["detail"]["decided_by"] == "person"
    assert "; a person decided: " in row["reason"]
    return row["state"], row["confirmed_success"]
