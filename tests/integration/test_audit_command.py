"""`paretoken audit` and `paretoken db archive` on runs whose faults are known."""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from db.archive import VerifiedFile, archive_run, verified
from db.browse import become_auditor
from db.connection import Connection, connect
from db.errors import LedgerInvalid
from db.ledger import export_lines
from db.ledger_files import ledger_file
from db.ledger_import import import_ledger
from db.runs import find_run
from db.worker_role import ROLE
from paretoken import cli
from paretoken.settings import BROKER_URL, DATABASE_URL, WORKER_PASSWORD
from tests.ledgers import row, unanswered, write_lines
from tests.store import planned

# Two tasks and a retry; a lost call that was repeated; an answer that was not used.
ROWS: list[dict[str, Any]] = [
    unanswered(task_id="t1", attempt=1, http_status=500),
    row(task_id="t1", attempt=2, purpose="retry", retry_reason="server_error"),
    unanswered("unknown", "timeout", task_id="t2"),
    row(task_id="t2", attempt=2, purpose="retry", retry_reason="unknown_outcome", cost_usd=0.002),
    row(task_id="t2", attempt=3, purpose="retry", retry_reason="unknown_outcome", used=False),
]


@dataclass(frozen=True)
class Called:
    code: int
    out: str
    err: str


Call = Callable[..., Called]


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database_url: str, broker_url: str
) -> Call:
    """The command line in this process."""
    monkeypatch.setenv(DATABASE_URL, database_url)
    monkeypatch.setenv(BROKER_URL, broker_url)

    def call(*arguments: str | Path) -> Called:
        monkeypatch.setattr("sys.argv", ["paretoken", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        return Called(int(end.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def theirs(connection: Connection, tmp_path: Path) -> int:
    """The rows above as the run `theirs`; its number."""
    import_ledger(connection, ledger_file(write_lines(tmp_path / "l.jsonl", ROWS)))
    return int(find_run(connection, "theirs")["id"])


def checks(called: Called) -> dict[str, bool]:
    return {check["name"]: check["passed"] for check in json.loads(called.out)["checks"]}


def test_a_sound_run(call: Call, theirs: int) -> None:
    said = call("audit", "theirs", "--json")
    found = json.loads(said.out)
    assert (said.code, found["passed"], all(checks(said).values())) == (0, True, True)
    # 3 answers of 100 + 20 tokens; the timeout may have been billed.
    assert found["totals"] == {
        "calls": 5,
        "unknown_usage_calls": 1,
        "unknown_cost_calls": 1,
        "input_tokens": 300,
        "output_tokens": 60,
        "total_tokens": 360,
        "cost_usd": pytest.approx(0.003),
    }
    assert [(one["task_id"], one["error"]) for one in found["unknown_outcomes"]] == [("t2", "timeout")]
    assert [(one["task_id"], one["attempt"]) for one in found["duplicates"]] == [("t2", 3)]
    # t2: 0.002 + 0.0005 for both of its answers.
    assert [(one["task_id"], one["cost_usd"]) for one in found["tasks"]] == [
        ("t2", pytest.approx(0.0025)),
        ("t1", pytest.approx(0.0005)),
    ]
    text = call("audit", "theirs").out
    for words in (
        "5 calls",
        "unknown outcomes",
        "duplicates",
        "most expensive tasks",
        "retry unknown_outcome: 2",
    ):
        assert words in text


def test_what_is_wrong_is_found_and_named(
    call: Call, theirs: int, connection: Connection, tmp_path: Path
) -> None:
    broken = [
        # attempts 1 and 3; round 2 without a round 1; sample 2 without a sample 1
        row(task_id="\x1b[31mred", attempt=1, used=False),
        row(task_id="\x1b[31mred", attempt=3, purpose="retry"),
        row(task_id="t2", round=2),
        row(task_id="t3", sample=2),
    ]
    import_ledger(connection, ledger_file(write_lines(tmp_path / "b.jsonl", broken)), run_id="broken")
    said = call("audit", "broken")
    assert said.code == 1
    assert "FAIL  contiguous attempts: 1 jobs" in said.out
    assert "FAIL  contiguous rounds and samples: 2 trials" in said.out
    assert "ok    one used call" in said.out
    assert r"task \u001b[31mred, strategy baseline" in said.out and "\x1b" not in said.out

    connection.execute(
        "UPDATE job SET state = 'failed' WHERE run = %s AND answer_attempt IS NOT NULL AND attempt = 2",
        [theirs],
    )
    connection.execute("UPDATE tally SET input_tokens = 7 WHERE run = %s", [theirs])
    connection.execute(
        "INSERT INTO call (job, attempt, run, model, purpose, reserve_tokens, worker, key_fingerprint) "
        "SELECT max(id), 4, run, 'm', 'retry', 0, 'w', 'k' FROM job WHERE run = %s GROUP BY run",
        [theirs],
    )
    said = call("audit", "theirs", "--json")
    assert said.code == 1
    assert [name for name, passed in checks(said).items() if not passed] == [
        "one used call",
        "contiguous attempts",
        "every call has ended",
        "the tally equals the calls",
    ]
    assert "the tally says input_tokens 7 instead of 300" in call("audit", "theirs").out


def test_a_bill_on_the_command_line(call: Call, theirs: int, tmp_path: Path) -> None:
    bill = tmp_path / "bill.csv"
    # Three answers; the ledger's day is 2026-01-02 in UTC, 2026-01-01 in Honolulu.
    bill.write_text("Day,model,n,input_tokens,output_tokens,cost_usd\n2026-01-02,m,3,300,60,0.003\n")
    columns = ("--columns", "date=Day,requests=n")
    assert call("audit", "theirs", "--bill", bill, *columns).code == 0
    said = call("audit", "theirs", "--bill", bill, *columns, "--timezone", "Pacific/Honolulu", "--json")
    [line] = json.loads(said.out)["bill"]["lines"]
    assert (said.code, line["day"], line["verdict"]) == (1, "2026-01-01", "differs")
    assert line["difference"]["requests"] == -3
    for arguments, complaint in {
        ("--bill", bill): f"Error: {bill}:1: no column 'date'",
        ("--bill", tmp_path / "none.csv"): "cannot be read",
        ("--bill", bill, *columns, "--timezone", "Mars"): "no time zone 'Mars'",
    }.items():
        said = call("audit", "theirs", *arguments)
        assert said.code == 2
        assert complaint in said.err
    assert call("audit", "nobody").code == 2


@pytest.fixture
def auditor(connection: Connection, database_url: str) -> Iterator[str]:
    """A person's login, as docs/audit.md makes it."""
    name, password = f"alice_{secrets.token_hex(4)}", secrets.token_hex(8)
    connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}' IN ROLE paretoken_auditor")
    connection.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
    yield f"postgresql://{name}:{password}@{database_url.partition('@')[2]}"
    connection.execute(f"DROP ROLE {name}")


def test_an_auditors_login_can_audit_and_make_nothing_at_all(
    call: Call, theirs: int, auditor: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(DATABASE_URL, auditor)
    assert call("audit", "theirs").code == 0
    assert call("export", "theirs", "--out", tmp_path / "out.jsonl").code == 0
    for arguments, code in {
        ("db", "archive", "theirs", "--out", tmp_path / "a.jsonl"): 1,
        ("db", "grant-auditor"): 2,
        ("pause", "theirs"): 2,
    }.items():
        said = call(*arguments)
        assert (said.code, said.out, len(said.err.splitlines())) == (code, "", 1), said.err
    with connect(auditor) as own, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        own.execute("CREATE TEMPORARY TABLE mine (x int)")


@pytest.fixture
def worker(connection: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of the login that `db upgrade` makes for workers."""
    password = secrets.token_hex(8)
    monkeypatch.setenv(WORKER_PASSWORD, password)
    yield f"postgresql://{ROLE}:{password}@{database_url.partition('@')[2]}"
    if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone() is not None:
        connection.execute(f"DROP OWNED BY {ROLE}")
        connection.execute(f"DROP ROLE {ROLE}")


def test_workers_get_a_role_that_cannot_change_the_ledger(
    call: Call,
    theirs: int,
    worker: str,
    auditor: str,
    connection: Connection,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection.execute(f"ALTER ROLE {psycopg.conninfo.conninfo_to_dict(auditor)['user']} RESET ALL")
    monkeypatch.setenv(DATABASE_URL, auditor)
    said = call("db", "upgrade")
    assert (said.code, "the role paretoken_worker cannot be made (permission denied" in said.err) == (1, True)

    monkeypatch.setenv(DATABASE_URL, database_url)
    for _ in range(2):
        said = call("db", "upgrade")
        assert (said.code, said.out.splitlines()[-1]) == (0, "Workers can log in as paretoken_worker.")
    with connect(worker) as own:
        own.execute("UPDATE run SET reason = 'seen' WHERE id = %s", [theirs])
        for statement in ("DELETE FROM call", "UPDATE call SET cost_usd = 0"):
            with pytest.raises(psycopg.errors.RestrictViolation):
                own.execute(statement)
        for statement in ("ALTER TABLE call DISABLE TRIGGER USER", "SET session_replication_role = replica"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                own.execute(statement)
        assert become_auditor(own)


@pytest.mark.parametrize("ending", ["parquet", "jsonl.gz"])
def test_a_finished_run_is_archived_and_can_come_back(
    call: Call, theirs: int, connection: Connection, tmp_path: Path, ending: str
) -> None:
    before = list(export_lines(connection, run=theirs))
    path = tmp_path / f"archive.{ending}"
    said = call("db", "archive", "theirs", "--out", path)
    assert (said.code, said.out) == (0, f"5 calls of run theirs are in {path} and no more in the database.\n")
    for table in ("call", "job", "trial", "task", "strategy", "tally", "run_lane", "run"):
        assert connection.execute(f"SELECT count(*) AS n FROM {table}").fetchone() == {"n": 0}, table
    [kept] = connection.execute("SELECT run_id, calls, total_tokens, sha256 FROM archive").fetchall()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert kept == {"run_id": "theirs", "calls": 5, "total_tokens": 360, "sha256": digest}
    assert call("import", path).code == 0
    assert list(export_lines(connection, run=find_run(connection, "theirs")["id"])) == before
    said = call("db", "archive", "theirs", "--out", path)
    assert (said.code, "is there already" in said.err) == (2, True)


def test_the_file_is_on_the_disk_before_the_run_is_deleted(
    call: Call, theirs: int, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    synced = []

    def fsync(opened: int) -> None:
        found = connection.execute("SELECT count(*) AS calls FROM call WHERE run = %s", [theirs]).fetchone()
        synced.append((os.fstat(opened).st_ino, path.exists(), found))

    monkeypatch.setattr("os.fsync", fsync)
    assert call("db", "archive", "theirs", "--out", path).code == 0
    # The content before the name is given, then the name, and all five calls are in the database yet.
    assert synced == [
        (path.stat().st_ino, False, {"calls": 5}),
        (tmp_path.stat().st_ino, True, {"calls": 5}),
    ]


def test_what_is_not_over_or_not_in_the_file_stays(
    call: Call, theirs: int, connection: Connection, tmp_path: Path
) -> None:
    planned(connection, tmp_path)
    path = tmp_path / "a.jsonl"
    said = call("db", "archive", "test", "--out", path)
    assert (said.code, path.exists()) == (1, False)
    assert "Run 'test' is running; only a finished or cancelled run can be archived." in said.err

    for lines in (ROWS[:-1], [*ROWS[:-1], row(task_id="t9")], [*ROWS, row(task_id="t9")]):
        with pytest.raises(LedgerInvalid, match=r"is not what the ledger says|more than 5 rows"):
            verified(connection, write_lines(path, lines), run_id="theirs")
    with pytest.raises(psycopg.errors.RestrictViolation, match="holds 4 calls and 360 tokens, the ledger"):
        archive_run(connection, VerifiedFile(run_id="theirs", calls=4, total_tokens=360, sha256=""))
    assert len(list(export_lines(connection, run=theirs))) == len(ROWS)
