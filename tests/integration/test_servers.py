"""The embedded servers, on the real programs."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from typer.testing import CliRunner

from paretoken import servers
from paretoken.errors import InputError, RunFailed
from paretoken.servers import Servers, Status
from paretoken.servers.cli import app
from paretoken.servers.process import command_line
from paretoken.servers.supervisor import ServerStatus

START = (
    "import json, sys; from pathlib import Path; from paretoken import servers;"
    "s = servers.start(Path(sys.argv[1]));"
    "print(json.dumps([s.database_url, s.broker_url]))"
)
# Runs a command as root of a user namespace in which no further user namespace may be made.
WITHOUT_NAMESPACES = """
import ctypes, os, sys
if ctypes.CDLL(None).unshare(0x10000000):
    sys.exit("no user namespace")
print(flush=True)
sys.stdin.readline()
open("/proc/sys/user/max_user_namespaces", "w").write("0")
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A data folder that every user can reach; its servers are stopped afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="paretoken-test-"))
    folder.chmod(0o755)
    home = folder / 'a "home" with é'
    yield home
    remove(home)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """Running servers for tests that leave them as they are."""
    folder = Path(tempfile.mkdtemp(prefix="paretoken-test-"))
    folder.chmod(0o755)
    servers.start(folder)
    yield folder
    remove(folder)
    shutil.rmtree(folder)


def remove(home: Path) -> None:
    """Stop the servers, and remove data that had to lie elsewhere."""
    for file in home.glob("servers/*.json"):
        if not file.read_text().startswith("{"):
            file.unlink()
    servers.stop(home)
    for server in both(servers.status(home)):
        if home.resolve() not in server.folder.parents:
            shutil.rmtree(server.folder)


def both(status: Status) -> tuple[ServerStatus, ServerStatus]:
    return status.postgres, status.valkey


def pids(home: Path) -> tuple[int, int]:
    """Process ids of PostgreSQL and Valkey, which have to be running."""
    postgres, valkey = (server.pid for server in both(servers.status(home)))
    assert postgres is not None
    assert valkey is not None
    return postgres, valkey


def write(started: Servers) -> None:
    with psycopg.connect(started.database_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 'a row' AS what")
    with redis.Redis.from_url(started.broker_url) as client:
        client.set("kept", "a value")
        # Every write is in the file from here on, so that a kill right afterwards loses none.
        client.execute_command("WAITAOF", 1, 0, 5000)


def read(started: Servers) -> tuple[str, bytes]:
    with psycopg.connect(started.database_url) as connection:
        row = connection.execute("SELECT what FROM kept").fetchone()
    with redis.Redis.from_url(started.broker_url) as client:
        value = client.get("kept")
    assert row is not None
    assert isinstance(value, bytes)
    return row[0], value


KEPT = ("a row", b"a value")


def test_start_is_idempotent(shared_home: Path) -> None:
    before = pids(shared_home)
    first, second = servers.start(shared_home), servers.start(shared_home)
    assert first == second
    assert pids(shared_home) == before
    assert urlsplit(first.database_url).path == "/paretoken"


def test_servers_as_promised(shared_home: Path) -> None:
    started = servers.start(shared_home)
    promised = {
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "fsync": "on",
        "synchronous_commit": "on",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "password_encryption": "scram-sha-256",
        "unix_socket_directories": "",
    }
    with psycopg.connect(started.database_url) as connection:
        settings = {
            name: connection.execute("SELECT current_setting(%s)", [name]).fetchone() for name in promised
        }
        collation = connection.execute(
            "SELECT datcollate FROM pg_database WHERE datname = 'paretoken'"
        ).fetchone()
        rules = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
    assert settings == {name: (value,) for name, value in promised.items()}
    assert collation == ("C",)
    assert rules == [("scram-sha-256",)]
    with redis.Redis.from_url(started.broker_url, decode_responses=True) as client:
        config = client.config_get("append*", "maxmemory-policy")
    assert config["appendonly"] == "yes"
    assert config["appendfsync"] == "everysec"
    assert config["maxmemory-policy"] == "noeviction"


def test_only_127_0_0_1_is_listened_on(shared_home: Path) -> None:
    """A server that listens on all addresses would answer on 127.0.0.2 as well."""
    for url in (server.url for server in both(servers.status(shared_home))):
        port = urlsplit(url or "").port
        assert port is not None
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.2", port), timeout=5)
        with pytest.raises(OSError):
            socket.create_connection(("::1", port), timeout=5)


@pytest.mark.parametrize("password", ["", ":wrong"])
def test_wrong_password_is_refused(shared_home: Path, password: str) -> None:
    postgres, valkey = both(servers.status(shared_home))
    assert postgres.url is not None
    assert valkey.url is not None
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.url.replace("paretoken@", f"paretoken{password}@"))
    with (
        redis.Redis.from_url(valkey.url.replace("//", f"//{password}@" if password else "//")) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.get("anything")


def test_files_are_closed_to_others(shared_home: Path) -> None:
    folder = shared_home / "servers"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o711
    for entry in folder.iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) & 0o077 == 0, entry


def test_passwords_stand_on_no_command_line(shared_home: Path) -> None:
    started = servers.start(shared_home)
    secrets = {urlsplit(url).password for url in (started.database_url, started.broker_url)}
    for pid in pids(shared_home):
        shown = subprocess.run(
            ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
        assert not any(str(secret) in shown.stdout for secret in secrets)
    assert not any(str(secret) in repr(started) + repr(servers.status(shared_home)) for secret in secrets)


def test_two_starts_at_once(home: Path) -> None:
    """Both get the same servers, which outlive their starters and keep data and port over a stop."""
    callers = [
        subprocess.Popen([sys.executable, "-c", START, str(home)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [json.loads(caller.communicate()[0]) for caller in callers]
    assert [caller.returncode for caller in callers] == [0, 0]
    assert answers[0] == answers[1]

    started = Servers(database_url=answers[0][0], broker_url=answers[0][1])
    write(started)
    running = pids(home)
    servers.stop(home)
    assert [server.running for server in both(servers.status(home))] == [False, False]
    for pid in running:
        assert command_line(pid) == []
    assert not (servers.status(home).postgres.folder / "data/postmaster.pid").exists()
    assert servers.start(home) == started
    assert read(started) == KEPT


def test_killed_servers_start_again_with_their_data(home: Path) -> None:
    started = servers.start(home)
    write(started)
    postgres, valkey = pids(home)

    os.kill(postgres, SIGKILL)
    assert servers.start(home) == started
    assert read(started) == KEPT
    assert pids(home)[0] != postgres
    assert pids(home)[1] == valkey

    os.kill(valkey, SIGKILL)
    assert servers.start(home) == started
    assert read(started) == KEPT

    for pid in pids(home):
        os.kill(pid, SIGKILL)
    # The process id in PostgreSQL's own file now belongs to somebody else.
    postmaster_file = servers.status(home).postgres.folder / "data/postmaster.pid"
    lines = postmaster_file.read_text().splitlines(keepends=True)
    postmaster_file.write_text("".join([f"{os.getpid()}\n", *lines[1:]]))
    assert servers.start(home) == started
    assert read(started) == KEPT


def test_a_taken_port_is_left_to_its_owner(home: Path) -> None:
    started = servers.start(home)
    write(started)
    servers.stop(home)
    takers = []
    for url in (started.database_url, started.broker_url):
        taker = socket.create_server(("127.0.0.1", urlsplit(url).port or 0))
        takers.append(taker)
    moved = servers.start(home)
    assert urlsplit(moved.database_url).port != urlsplit(started.database_url).port
    assert urlsplit(moved.broker_url).port != urlsplit(started.broker_url).port
    assert read(moved) == KEPT
    for taker in takers:
        taker.close()
    servers.stop(home)
    assert servers.start(home) == moved


def test_unusable_data(home: Path) -> None:
    """Each kind of damage gets its message; the data is left alone."""
    servers.start(home)
    servers.stop(home)
    data = servers.status(home).postgres.folder / "data"

    (data / "PG_VERSION").write_text("13\n")
    with pytest.raises(InputError, match=r"made by PostgreSQL 13, but .* is PostgreSQL 1\d"):
        servers.start(home)
    (data / "PG_VERSION").unlink()
    with pytest.raises(InputError, match="holds no PostgreSQL data"):
        servers.start(home)
    (data / "PG_VERSION").write_text("18\n")

    with (data / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(RunFailed, match=r"postgres did not start(.|\n)*\| .*no_such_setting"):
        servers.start(home)

    record = home / "servers/postgres.json"
    kept = record.read_text()
    record.unlink()
    with pytest.raises(InputError, match=r"postgres\.json is missing"):
        servers.start(home)
    record.write_text(kept)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="PARETOKEN_HOME"):
        servers.start(tmp_path / "file" / "home")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"cannot be used \(Permission denied\): set PARETOKEN_HOME"):
        servers.start(tmp_path / "home")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_folder_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    os.chown(tmp_path / "servers", 65533, 65533)
    with pytest.raises(InputError, match="belongs to user 65533"):
        servers.start(tmp_path)


def test_never_started(tmp_path: Path) -> None:
    servers.stop(tmp_path)
    assert [(server.running, server.url) for server in both(servers.status(tmp_path))] == [(False, None)] * 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="concerns root on Linux")
def test_root_servers_belong_to_nobody_where_namespaces_are_not_allowed(home: Path, tmp_path: Path) -> None:
    """Once in a folder that everybody can reach, once in root's own (pytest's folder is closed to others)."""
    for folder in (home, tmp_path):
        child = subprocess.Popen(
            [sys.executable, "-c", WITHOUT_NAMESPACES, sys.executable, "-c", START, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        if not child.stdout.readline():
            child.communicate()
            pytest.skip("this machine allows no user namespace to try it in")
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child.pid}/{name}").write_text("0 0 65536")
        try:
            started = Servers(
                **dict(
                    zip(("database_url", "broker_url"), json.loads(child.communicate("\n")[0]), strict=True)
                )
            )
            write(started)
            assert [Path(f"/proc/{pid}").stat().st_uid for pid in pids(folder)] == [65534, 65534]
            servers.stop(folder)
            # Data that belongs to that user stays with it.
            assert servers.start(folder) == started
            assert [Path(f"/proc/{pid}").stat().st_uid for pid in pids(folder)] == [65534, 65534]
            assert read(started) == KEPT
        finally:
            remove(folder)


def test_command_line(shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PARETOKEN_DATABASE_URL", "PARETOKEN_BROKER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PARETOKEN_HOME", str(shared_home))
    run = CliRunner().invoke
    started = servers.start(shared_home)
    assert json.loads(run(app, ["start", "--json"]).stdout)["database_url"] == started.database_url
    shown = json.loads(run(app, ["status", "--json"]).stdout)
    assert shown["postgres"]["running"] is True
    assert shown["valkey"]["pid"] == pids(shared_home)[1]
    text = run(app, ["status"]).stdout
    assert "running, process" in text
    assert str(urlsplit(started.database_url).password) not in text + json.dumps(shown)


def test_command_line_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARETOKEN_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["stop"])
    assert (result.exit_code, result.stdout) == (0, "Both servers are stopped; their data stays.\n")
