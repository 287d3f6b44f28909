"""An imported run is a run like any other: `status` and `report` work on it, and what no ledger says stays unknown."""

import csv
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from db.connection import Connection
from db.errors import ImportedRun
from db.frames import read_frames
from db.ledger_files import ledger_file
from db.ledger_import import import_ledger
from db.runs import find_run, retry_trials
from paretoken import cli
from paretoken.ledger import write_ledger
from scheduler.errors import RunChanged
from scheduler.experiment import load
from scheduler.plan import plan
from scheduler.progress import progress
from tests.experiments import write_experiment
from tests.ledgers import row, unanswered, write_lines

ROWS: list[dict[str, Any]] = [
    # two strategies on two tasks; sc_k2 asks twice
    *(row(task_id=task, response_id=f"{task}-b") for task in ("t1", "t2")),
    *(
        row(task_id=task, strategy="sc_k2", sample=sample, response_id=f"{task}-{sample}")
        for task in ("t1", "t2")
        for sample in (1, 2)
    ),
    # t3: one call was never answered; t4: its outcome is unknown, then it was
    unanswered(task_id="t3", error="context_length"),
    unanswered("unknown", "timeout", task_id="t4"),
    row(task_id="t4", attempt=2, purpose="retry", retry_reason="timeout", total_tokens=None, input_tokens=None,
        output_tokens=None, cost_usd=None),
]  # fmt: skip


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch, database_url: str, broker_url: str) -> None:
    monkeypatch.setenv("PARETOKEN_DATABASE_URL", database_url)
    monkeypatch.setenv("PARETOKEN_BROKER_URL", broker_url)


def run_cli(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["paretoken", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def make(
    connection: Connection, tmp_path: Path, rows: list[dict[str, Any]] = ROWS, name: str = "theirs"
) -> int:
    import_ledger(connection, ledger_file(write_lines(tmp_path / "l.jsonl", rows)))
    return int(find_run(connection, name)["id"])


def test_progress_counts_what_the_ledger_says(connection: Connection, tmp_path: Path) -> None:
    make(connection, tmp_path)
    seen = progress(connection, "theirs")
    assert seen.state == "finished"
    assert seen.trials == {"ok": 5, "failed": 1}
    assert seen.open_jobs == 0
    assert (seen.ok_calls, seen.error_calls, seen.unknown_calls, seen.unknown_usage_calls) == (7, 1, 1, 1)
    # six calls of 100 + 20 tokens and 0.0005 USD
    assert (seen.input_tokens, seen.output_tokens, round(seen.cost_usd, 6)) == (600, 120, 0.003)
    assert seen.errors == {"context_length": 1, "timeout": 1}
    assert seen.created_at.isoformat() == "2026-01-02T03:04:05.000001+00:00"
    assert seen.unpriced_models == []


@pytest.mark.parametrize(
    ("cost_usd", "unpriced"),
    [([0.1, 0.2], []), ([0.1, None], ["m"]), ([None, None], ["m"]), ([0.0, 0.0], [])],
)
def test_a_cost_that_is_unknown_is_said(
    connection: Connection, tmp_path: Path, cost_usd: list[float | None], unpriced: list[str]
) -> None:
    make(connection, tmp_path, [row(task_id=f"t{n}", cost_usd=cost) for n, cost in enumerate(cost_usd)])
    assert progress(connection, "theirs").unpriced_models == unpriced


@pytest.mark.parametrize(
    ("response_id", "simulated"), [("chatcmpl-sim-3-1", True), ("chatcmpl-1", False), (None, False)]
)
def test_answers_of_the_simulated_gateway_stay_marked(
    connection: Connection, tmp_path: Path, response_id: str | None, simulated: bool
) -> None:
    make(connection, tmp_path, [row(response_id=response_id)])
    assert find_run(connection, "theirs")["simulated"] is simulated


def test_a_rerun_counts_by_its_last_try(connection: Connection, tmp_path: Path) -> None:
    first, second = (
        unanswered(error="invalid_output"),
        row(purpose="rerun", retry_reason="failed_check", **{"try": 2}),
    )
    late = [row(task_id="t2"), unanswered(task_id="t2", purpose="rerun", **{"try": 2})]
    make(connection, tmp_path, [first, second, *late])
    found = connection.execute(
        "SELECT task.task_id, trial.state, trial.try, trial.reason FROM trial JOIN task ON task.id = trial.task "
        "ORDER BY 1"
    ).fetchall()
    assert [tuple(line.values())[:3] for line in found] == [("t1", "ok", 2), ("t2", "failed", 2)]
    assert found[0]["reason"] is None
    assert "no used answer" in found[1]["reason"]


def test_an_imported_run_is_not_run_again(connection: Connection, tmp_path: Path) -> None:
    run = make(connection, tmp_path, [unanswered(run_id="test")], name="test")
    with pytest.raises(ImportedRun, match="was imported from a ledger"):
        retry_trials(connection, run=run, state="failed")
    loaded = load(write_experiment(tmp_path))
    with pytest.raises(
        RunChanged, match=r"'test' was imported from a ledger\. Give the new one its own run_id"
    ):
        plan(connection, loaded, key_fingerprint="simulated", base_url="http://127.0.0.1:1")
    assert connection.execute("SELECT state FROM trial").fetchall() == [{"state": "failed"}]


def test_outcomes_are_unknown(connection: Connection, tmp_path: Path) -> None:
    frames = read_frames(connection, run=make(connection, tmp_path))
    assert frames.outcomes.height == 6
    assert frames.outcomes["confirmed_success"].null_count() == 6
    assert frames.outcomes["output"].null_count() == 6
    assert frames.strategies.rows() == [("baseline", "baseline", 1, 1), ("sc_k2", "sc_k2", 1, 2)]


def test_import_status_report_and_export_by_command(
    servers: None, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:  # fmt: skip
    path = write_lines(tmp_path / "l.jsonl", ROWS)
    assert run_cli(monkeypatch, "import", str(path), "--run-id", "ours") == 0
    assert b"Run ours: 9 rows, 6 trials." in capfdbinary.readouterr().out
    assert run_cli(monkeypatch, "import", str(path), "--run-id", "ours") == 2
    assert capfdbinary.readouterr().err == (
        b"Error: A run named 'ours' is there already. Import under another name with --run-id.\n"
    )
    # One of its trials has no answer.
    assert run_cli(monkeypatch, "status", "ours") == 1
    assert b"trials: 5 ok, 1 failed" in capfdbinary.readouterr().out
    assert run_cli(monkeypatch, "report", "ours", "--no-page", "--out", str(tmp_path / "report")) == 0
    with (tmp_path / "report" / "strategy_tokens.csv").open() as file:
        tokens = {line["strategy"]: line for line in csv.DictReader(file)}
    # sc_k2: two calls of 120 tokens for each task
    assert tokens["sc_k2"]["avg_total_tokens"] == "240.0"
    assert tokens["baseline"]["unknown_usage"] == "1"
    capfdbinary.readouterr()
    assert run_cli(monkeypatch, "export", "ours") == 0
    printed = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line | {"run_id": "theirs"} for line in printed] == sorted(
        ROWS, key=lambda line: (line["task_id"], line["strategy"], line["sample"], line["attempt"])
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["export", "ours"], 2, b"No run is named 'ours'."),
        (
            ["export", "theirs", "--out", "missing/l.jsonl"],
            2,
            b"missing/l.jsonl: cannot be written (No such file",
        ),
        (["export", "theirs", "--out", "l.txt"], 2, b"l.txt: the ending '.txt' names no format."),
        (["export", "theirs", "--out", "l.parquet.gz"], 2, b"Parquet is packed already"),
        (["export", "theirs", "--format", "parquet"], 2, b"Parquet is no text: name a file with --out."),
        (["export", "theirs", "--format", "xml"], 2, b"'xml' is not one of 'jsonl', 'csv', 'parquet'"),
        (["import", "missing.jsonl"], 2, b"missing.jsonl: there is no such file."),
        (["import", "."], 2, b"is a directory"),
    ],
)
def test_a_command_that_cannot_be_done_is_one_line(
    servers: None, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes], arguments: list[str], code: int, message: bytes,
) -> None:  # fmt: skip
    make(connection, tmp_path)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert run_cli(monkeypatch, *arguments) == code
    assert message in capfdbinary.readouterr().err
    assert not list((tmp_path / "work").iterdir())


def test_an_export_that_breaks_off_leaves_the_old_file(connection: Connection, tmp_path: Path) -> None:
    make(connection, tmp_path)
    out = tmp_path / "folder" / "l.jsonl"
    out.parent.mkdir()
    out.write_text("old\n")
    connection.execute("DROP VIEW ledger")
    with pytest.raises(psycopg.errors.UndefinedTable):
        write_ledger(connection, "theirs", out)
    assert out.read_text() == "old\n"
    assert list(out.parent.iterdir()) == [out]
