"""Lock, process id, log and record of a server, with `sleep` as the server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from paretoken.errors import InputError, RunFailed
from paretoken.servers import record as records
from paretoken.servers.process import Process, command_line, wait_until
from paretoken.servers.record import Record
from paretoken.servers.valkey import Valkey

FOREVER = "86399"  # seconds; on no other program's command line


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    process = Process(name="sleeper", folder=tmp_path, marker=FOREVER)
    yield process
    process.stop(signal=SIGKILL)


def sleeper(process: Process) -> int:
    process.start(account="self", command=["/bin/sleep", FOREVER])
    # A process shows no command line for a moment while it becomes another program.
    assert wait_until(lambda: process.pid() is not None, timeout_s=10)
    return int(process.lock.read_text())


def test_daemon_has_its_own_session_and_ends_on_stop(process: Process) -> None:
    assert process.pid() is None
    pid = sleeper(process)
    assert os.getsid(pid) == pid
    process.stop(signal=SIGTERM)
    assert process.pid() is None
    assert command_line(pid) == []
    process.stop(signal=SIGTERM)  # nothing to do


def test_environment_holds_no_key(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOTOKEN_API_KEY", "sk-secret")
    process.start(account="self", command=["/bin/sh", "-c", f"env; exec sleep {FOREVER}"])
    assert wait_until(lambda: "TZ=UTC" in process.log_text(), timeout_s=10)
    assert "sk-secret" not in process.log_text()
    os.kill(int(process.lock.read_text()), SIGKILL)


def test_reused_process_id_is_not_taken_for_the_server(process: Process) -> None:
    process.lock.write_text(str(os.getpid()))
    assert process.pid() is None


def test_killed_servers_child_is_no_server_but_is_waited_for(tmp_path: Path) -> None:
    process = Process(name="parent", folder=tmp_path, marker="86398")
    process.start(account="self", command=["/bin/sh", "-c", "sleep 86397 & echo $!; wait", "86398"])
    assert wait_until(lambda: process.log_text().endswith("\n"), timeout_s=10)
    child, parent = int(process.log_text()), int(process.lock.read_text())
    assert process.pid() == parent
    os.kill(parent, SIGKILL)
    assert wait_until(lambda: process.pid() is None, timeout_s=10)
    assert process.is_held()
    os.kill(child, SIGKILL)
    process.wait_for_remains()
    assert not process.is_held()


def test_program_that_does_not_exist_is_told_in_the_log(process: Process) -> None:
    process.start(account="self", command=["/nonexistent/server", FOREVER])
    assert wait_until(lambda: not process.is_held(), timeout_s=10)
    assert "cannot run /nonexistent/server: " in process.log_tail()


def test_a_start_keeps_the_former_log(process: Process) -> None:
    for text in ("first", "second"):
        process.start(account="self", command=["/bin/echo", text])
        assert wait_until(lambda: not process.is_held(), timeout_s=10)
    assert process.log_text() == "second\n"
    assert (process.folder / "sleeper.log.old").read_text() == "first\n"


def test_launcher_failure_is_told(tmp_path: Path) -> None:
    process = Process(name="server", folder=tmp_path / "absent", marker="x")
    with pytest.raises(RunFailed, match="server could not be started"):
        process.start(account="self", command=["/bin/true"])


def test_command_line() -> None:
    command = ["/bin/sh", "-c", "echo ready; read line", "an argument", ""]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert command_line(child.pid) == command
        child.communicate()
        assert command_line(child.pid) == []


@pytest.mark.skipif(sys.platform != "linux", reason="os.waitid with WNOWAIT is Linux's")
def test_zombie_has_no_command_line() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended and is not yet fetched
        assert command_line(child.pid) == []


def test_record_is_private_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "postgres.json"
    assert records.read(path) is None
    record = Record(port=5, account="nobody", outside="/var/lib/x")
    records.write(path, record)
    assert records.read(path) == record
    assert path.stat().st_mode & 0o777 == 0o600
    assert record.password not in repr(record)
    assert record.place(tmp_path, "postgres") == Path("/var/lib/x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["postgres.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"prot": 5}',
        '{"port": 0}',
        '{"port": "x"}',
        '{"port": true}',
        '{"password": null}',
        '{"password": ""}',
    ],
)
def test_damaged_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "postgres.json").write_text(text)
    with pytest.raises(InputError, match=r"postgres\.json is damaged"):
        records.read(tmp_path / "postgres.json")


def test_passwords_differ() -> None:
    assert len({Record().password for _ in range(100)}) == 100


def test_url_without_password() -> None:
    record = Record(port=7)
    assert Valkey().url(record) == f"redis://:{record.password}@127.0.0.1:7/0"
    assert Valkey().url(record, password=False) == "redis://127.0.0.1:7/0"
