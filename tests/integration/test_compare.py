"""`paretoken compare` on two runs of a database."""

import json
from pathlib import Path

import pytest

from db.connection import Connection
from db.ledger_files import ledger_file
from db.ledger_import import import_ledger
from paretoken import cli
from tests.ledgers import row, write_lines

TASKS = [f"t{n}" for n in range(10)]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["paretoken", "compare", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def make(
    connection: Connection, folder: Path, name: str, *, model: str, more_tokens: int, passed: int
) -> None:
    """A run of one strategy on ten tasks, of which the first `passed` succeed."""
    rows = [
        row(
            run_id=name,
            task_id=t,
            model=model,
            total_tokens=120 + more_tokens,
            input_tokens=100 + more_tokens,
        )
        for t in [*TASKS, f"only-{name}"]
    ]
    import_ledger(connection, ledger_file(write_lines(folder / f"{name}.jsonl", rows)))
    connection.execute(
        "UPDATE trial SET confirmed_success = task.task_id = ANY(%s) FROM task"
        " WHERE task.id = trial.task AND trial.run = (SELECT id FROM run WHERE run_id = %s)",
        [TASKS[:passed], name],
    )


def test_two_models(
    connection: Connection,
    database_url: str,
    broker_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PARETOKEN_DATABASE_URL", database_url)
    monkeypatch.setenv("PARETOKEN_BROKER_URL", broker_url)
    make(connection, tmp_path, "old", model="m-1", more_tokens=0, passed=2)
    make(connection, tmp_path, "new", model="m-2\x1b[31m", more_tokens=10, passed=8)
    assert call(monkeypatch, "old", "new", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["tasks"], said["tasks_only_a"], said["tasks_only_b"]) == (10, 1, 1)
    changed = {line["figure"]: line for line in said["changes"]}
    # 120 and 130 tokens on every task; 2 and 8 of 10 succeed.
    assert (changed["total_tokens"]["change"], changed["total_tokens"]["significant"]) == (10, True)
    assert changed["success_rate"]["change"] == pytest.approx(0.6)
    assert changed["short_of_frontier"]["standing"] == "nearer the frontier"

    assert call(monkeypatch, "old", "new") == 0
    shown = capsys.readouterr().out
    # Both are imported ledgers, which hold neither.
    told = "models: A m-1, B m-2\\u001b[31m; experiment: unknown (imported); prompts: unknown (imported)."
    assert told in " ".join(shown.split())
    assert (said["run_a"]["experiment_hash"], said["run_b"]["prompts_hash"]) == (None, None)
    assert "+60.0 pp" in shown
    assert "1 task that only A has" in shown

    connection.execute(
        "UPDATE trial SET confirmed_success = (SELECT run_id FROM run WHERE id = trial.run) = 'new'"
    )
    assert call(monkeypatch, "old", "new") == 0
    shown = capsys.readouterr().out
    assert "(open)" in shown
    assert "has no finite size" in " ".join(shown.split())

    assert call(monkeypatch, "old", "newer") == 2
    assert "No run is named 'newer'" in capsys.readouterr().err
