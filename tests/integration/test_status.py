"""`paretoken status` by the driver that loads quickly: it sees what psycopg sees, which says what is wrong."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from db import glance
from db.connection import Connection
from db.reader import Reader
from db.revision import has_newest
from db.runs import list_runs
from paretoken import cli, servers
from paretoken.services import services_at_hand
from paretoken.settings import BROKER_URL, DATABASE_URL, HOME
from scheduler.progress import progress
from tests import looked_into, store

RUN = "test"
HELD = "UPDATE lane SET hold_until = now() + interval '1 hour', hold_reason = 'the gateway is full'"
PAST = "UPDATE run SET finished_at = '1999-12-31 23:59:59.999999+05:30'"


def read_both(url: str, connection: Connection, run_id: str = RUN) -> None:
    def look(reader: Reader) -> object:
        return progress(reader, run_id), list_runs(reader, most=5)

    with glance.connect(url) as reader:
        assert look(reader) == look(connection)


def test_both_drivers_see_the_same_finished_run(
    database_url: str, connection: Connection, tmp_path: Path
) -> None:
    made = looked_into.make(connection, tmp_path)
    connection.execute(PAST)
    read_both(database_url, connection)
    counted = connection.execute(
        "SELECT state, count(*) AS trials FROM trial WHERE run = %s GROUP BY state", [made.run]
    ).fetchall()
    seen = progress(connection, RUN)
    assert seen.trials == {row["state"]: row["trials"] for row in counted}
    assert len(seen.trials) == 3


def test_both_drivers_see_the_same_run_at_work(
    database_url: str, connection: Connection, tmp_path: Path
) -> None:
    store.planned(connection, tmp_path, samples=3, tasks=4)
    connection.execute(HELD)
    read_both(database_url, connection)
    seen = progress(connection, RUN)
    assert seen.trials == {"pending": 4}
    assert [(wait.why, wait.jobs) for wait in seen.waits] == [("hold", 12)]


LATER = """
UPDATE job SET not_before = now() + interval '1 minute', retry_reason = %s
WHERE id IN (SELECT id FROM job ORDER BY id {})"""


def test_each_job_waits_for_one_thing(connection: Connection, tmp_path: Path) -> None:
    """Of twelve jobs two come back for their next try, and three were handed back by the limiter."""
    store.planned(connection, tmp_path, samples=3, tasks=4)
    connection.execute(LATER.format("LIMIT 2"), ["timeout"])
    connection.execute(LATER.format("OFFSET 2 LIMIT 3"), [None])

    def waits() -> set[tuple[str, str | None, int]]:
        return {(wait.why, wait.reason, wait.jobs) for wait in progress(connection, RUN).waits}

    assert waits() == {("retry", "timeout", 2), ("capacity", None, 3)}
    connection.execute(HELD)
    assert waits() == {("hold", "the gateway is full", 12)}
    connection.execute("UPDATE lane SET hold_until = now() - interval '1 second'")
    assert waits() == {("retry", "timeout", 2), ("capacity", None, 3)}


@pytest.fixture
def own_servers(monkeypatch: pytest.MonkeyPatch, database_url: str, broker_url: str) -> None:
    monkeypatch.setenv(DATABASE_URL, database_url)
    monkeypatch.setenv(BROKER_URL, broker_url)


LOADED = """
import atexit, sys
from paretoken.cli import main
atexit.register(lambda: print("slow:", sorted({"psycopg", "asyncio", "redis", "sqlalchemy"} & set(sys.modules))))
sys.argv = ["paretoken", "status", "--json", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("arguments", [[RUN], []])
@pytest.mark.usefixtures("own_servers")
def test_nothing_is_loaded_that_takes_long(
    arguments: list[str], connection: Connection, tmp_path: Path
) -> None:
    looked_into.make(connection, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=False
    )
    said, _, loaded = done.stdout.partition("slow: ")
    assert loaded == "[]\n"
    document = json.loads(said)
    assert (document if arguments else document[0])["run_id"] == RUN
    # Trials of this run need attention.
    assert (done.returncode, done.stderr) == (1 if arguments else 0, "")


Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """`paretoken status` in this process: exit code, output, error output."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["paretoken", "status", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    return run


@pytest.mark.usefixtures("own_servers")
def test_an_unknown_run_is_said(ask: Ask) -> None:
    assert ask("nowhere") == (2, "", "Error: No run is named 'nowhere'. There are no runs yet.\n")


@pytest.mark.usefixtures("own_servers")
@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        ("DROP TABLE alembic_version", 1, "paretoken db upgrade"),
        ("UPDATE alembic_version SET version_num = '9999'", 1, "9999"),
    ],
)
def test_what_is_wrong_with_the_database_is_said(
    damage: str,
    code: int,
    said: str,
    connection: Connection,
    tmp_path: Path,
    ask: Ask,
) -> None:
    store.planned(connection, tmp_path)
    connection.execute(damage)
    exit_code, _, error = ask(RUN)
    assert exit_code == code
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.usefixtures("own_servers")
def test_who_may_not_read_is_told_so(
    database_url: str,
    connection: Connection,
    tmp_path: Path,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.planned(connection, tmp_path)
    name, password = f"stranger_{secrets.token_hex(4)}", secrets.token_hex(8)
    connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
    connection.execute(f"GRANT SELECT ON alembic_version, run TO {name}")
    monkeypatch.setenv(DATABASE_URL, f"postgresql://{name}:{password}@{database_url.partition('@')[2]}")
    try:
        code, _, error = ask(RUN)
    finally:
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")
    assert code == 2
    assert "(permission denied for table " in error
    assert len(error.splitlines()) == 1


def test_nobody_there_is_said(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATABASE_URL, "postgresql://u:hidden@127.0.0.1:1/d")
    monkeypatch.setenv(BROKER_URL, "redis://127.0.0.1:1/0")
    code, _, error = ask(RUN)
    assert code == 1
    assert error.startswith("Error: No database answers: ")
    assert len(error.splitlines()) == 1
    assert "hidden" not in error


@pytest.mark.parametrize(
    "odd",
    [
        "u:p secret@h/d",
        "u:secret%zz@h/d",
        "u:secret%00@h/d",
        "u:p@secret/x@h/d",
        "u:p@h/d?secret=1",
        "h/secret x",
    ],
)
def test_a_url_that_cannot_be_read_is_not_shown(odd: str, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATABASE_URL, f"postgresql://{odd}")
    monkeypatch.setenv(BROKER_URL, "redis://127.0.0.1:1/0")
    code, _, error = ask(RUN)
    assert code == 2
    assert error.startswith(f"Error: {DATABASE_URL}")
    assert "secret" not in error
    assert len(error.splitlines()) == 1


@pytest.mark.usefixtures("own_servers")
@pytest.mark.parametrize("name", ["\udcff\udcfe", "日本語", "%s", "%(run_id)s", "a'b"])
def test_no_run_has_such_a_name(name: str, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    code, _, error = ask(name)
    assert code == 2
    assert error.startswith("Error: No run is named ")


@pytest.mark.usefixtures("own_servers")
@pytest.mark.parametrize("moment", ["infinity", "-infinity", "12000-01-01", "0044-03-15 BC"])
def test_a_time_that_python_has_no_room_for_is_said(
    moment: str,
    connection: Connection,
    tmp_path: Path,
    ask: Ask,
) -> None:
    store.planned(connection, tmp_path)
    connection.execute("UPDATE run SET created_at = %s", [moment])
    code, _, error = ask(RUN)
    assert code == 1
    assert error.startswith("Error: The database holds or was asked for a value that cannot be read")
    assert len(error.splitlines()) == 1


@pytest.mark.usefixtures("own_servers")
def test_a_broker_that_is_silent_is_said(
    connection: Connection,
    tmp_path: Path,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.planned(connection, tmp_path)
    monkeypatch.setenv(BROKER_URL, "redis://127.0.0.1:1/0")
    code, shown, _ = ask(RUN)
    assert code == 0
    assert shown.endswith("limits: unknown, the broker does not answer\n")
    code, document, _ = ask(RUN, "--json")
    assert code == 0
    assert json.loads(document)["capacity"] is None
    monkeypatch.setenv(BROKER_URL, "redis://127.0.0.1:1/0?bogus=secret")
    code, _, error = ask(RUN)
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith(f"Error: {BROKER_URL}: leave out what stands behind the question mark")
    assert "secret" not in error


def test_ctrl_c_is_heard_while_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = os.environ | {
            DATABASE_URL: f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d",
            BROKER_URL: "redis://127.0.0.1:1/0",
        }
        asked = [sys.executable, "-m", "paretoken", "status", RUN]
        with subprocess.Popen(asked, env=environment, stderr=subprocess.PIPE, text=True) as asking:
            silent.accept()[0].recv(1)
            asking.send_signal(signal.SIGINT)
            assert asking.communicate() == (None, "Interrupted.\n")
        assert asking.returncode == 130


def test_a_home_that_is_a_file_is_said(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(HOME, str(tmp_path / "file"))
    monkeypatch.delenv(DATABASE_URL, raising=False)
    monkeypatch.delenv(BROKER_URL, raising=False)
    code, _, error = ask()
    assert code == 2
    assert len(error.splitlines()) == 1


def test_embedded_servers_at_rest_are_started(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME, str(tmp_path))
    monkeypatch.delenv(DATABASE_URL, raising=False)
    monkeypatch.delenv(BROKER_URL, raising=False)
    assert services_at_hand() is None
    assert ask() == (0, "There are no runs yet. Start one: paretoken demo\n", "")
    servers.start(tmp_path)
    try:
        at_hand = services_at_hand()
        assert at_hand is not None
        with glance.connect(at_hand.database_url) as reader:
            assert has_newest(reader)
    finally:
        servers.stop(tmp_path)
    assert services_at_hand() is None


def test_a_connection_that_ends_is_unreachable(database_url: str) -> None:
    with (
        pytest.raises(glance.NotSeen, match="closed the connection"),
        glance.connect(database_url) as reader,
    ):
        reader.execute("SELECT pg_terminate_backend(pg_backend_pid())")
