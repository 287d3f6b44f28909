"""What a bill should say: kinds of calls, and runs that may stand on the same bill."""

from pathlib import Path

from db.billable import billable
from db.connection import Connection
from db.ledger_files import ledger_file
from db.ledger_import import import_ledger
from tests.ledgers import row, unanswered, write_lines


def test_how_calls_count(connection: Connection, tmp_path: Path) -> None:
    rows = [
        unanswered(task_id="t1", attempt=1, http_status=500),
        unanswered(error="connection", task_id="t1", attempt=2, http_status=None),
        unanswered("unknown", "timeout", task_id="t1", attempt=3, http_status=None),
        # A total alone: to the bill's columns it says as little, but not more than 70 tokens and 0.0005 USD.
        row(task_id="t2", input_tokens=None, output_tokens=None, total_tokens=70),
        row(task_id="t3"),
    ]
    import_ledger(connection, ledger_file(write_lines(tmp_path / "l.jsonl", rows)))
    parts = billable(connection, "theirs", timezone="UTC").run
    assert {part.what: part.calls for part in parts} == {"failed": 1, "unsaid": 2, "used": 1}
    [unsaid] = [part for part in parts if part.what == "unsaid"]
    # Of the timeout an imported ledger knows no bound.
    assert (unsaid.bound_tokens, unsaid.largest_tokens) == (70, 70)
    assert (unsaid.bound_cost_usd, unsaid.largest_cost_usd) == (None, None)


def test_other_runs_with_a_model_in_common(connection: Connection, tmp_path: Path) -> None:
    one = write_lines(tmp_path / "l.jsonl", [row(), row(task_id="t2", model="n")])
    other = write_lines(tmp_path / "o.jsonl", [row(model="other")])
    names = [f"r{number}" for number in range(1, 9)]
    for name in names:
        import_ledger(connection, ledger_file(one), run_id=name)
    import_ledger(connection, ledger_file(other), run_id="other")
    assert billable(connection, "r1", timezone="UTC").others().runs == {}
    connection.execute("UPDATE run SET experiment = experiment - 'imported', created_at = '2026-01-02'")
    connection.execute("UPDATE run SET simulated = true WHERE run_id = 'r8'")
    found = billable(connection, "r1", timezone="UTC").others()
    # r2 to r7 but for the oldest: r8 is simulated, and `other` asked another model.
    assert (sorted(found.runs), found.left_out) == (["r3", "r4", "r5", "r6", "r7"], 1)
