"""PostgreSQL as an embedded server: its data, its settings, whether it answers."""

import shutil
import subprocess
from pathlib import Path
from signal import SIGINT, Signals

from paretoken.errors import InputError, RunFailed
from paretoken.servers.accounts import uid_of
from paretoken.servers.binaries import Binary, find_postgres
from paretoken.servers.process import clean_environment, command_line, launcher
from paretoken.servers.record import Record, write_private

USER = "paretoken"
DATABASE = "paretoken"

SETTINGS = {
    # TCP on loopback alone: a socket's path could get too long for the system.
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # The ledger must not lose a commit, whatever a configuration file says.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
}


class Postgres:
    """See `supervisor.Engine`."""

    name = "postgres"
    stop_signal: Signals = SIGINT  # "fast": open sessions are ended, everything is written

    def find(self) -> Binary:
        return find_postgres()

    def marker(self, place: Path) -> str:
        return str(place / "data")

    def prepare(self, binary: Binary, record: Record, place: Path) -> None:
        """Make the database cluster, unless there is one. Raises `InputError` for one of another version."""
        data = place / "data"
        if data.exists():
            _check_version(data, binary)
            _remove_stale_pid_file(data)
        else:
            _initialise(data, binary, record)

    def command(self, binary: Binary, record: Record, place: Path) -> list[str]:
        settings = {**SETTINGS, "port": str(record.port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(binary.path), "-D", str(place / "data"), *options]

    def url(self, record: Record, *, password: bool = True) -> str:
        return _url(record, DATABASE, password=password)

    def problem(self, record: Record) -> str | None:
        """None when the server answers and has the database, which is made when missing."""
        import psycopg

        try:
            with psycopg.connect(_url(record, "postgres"), autocommit=True, connect_timeout=5) as connection:
                found = connection.execute(
                    "SELECT FROM pg_database WHERE datname = %s", [DATABASE]
                ).fetchone()
                if found is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError as error:
            return str(error).strip()
        return None


def _url(record: Record, database: str, *, password: bool = True) -> str:
    user = f"{USER}:{record.password}" if password else USER
    return f"postgresql://{user}@127.0.0.1:{record.port}/{database}"


def _check_version(data: Path, binary: Binary) -> None:
    version_file = data / "PG_VERSION"
    if not version_file.exists():
        raise InputError(
            f"{data} holds no PostgreSQL data: move it away, or set PARETOKEN_HOME to another folder."
        )
    version = version_file.read_text().strip()
    if version != str(binary.major):
        raise InputError(
            f"{data} was made by PostgreSQL {version}, but {binary.path} is {binary.version}: move the data "
            f"with pg_upgrade or pg_dump, or set PARETOKEN_HOME to another folder."
        )


def _remove_stale_pid_file(data: Path) -> None:
    """Remove the file of a killed server whose process id now belongs to another program.

    PostgreSQL would refuse to start: it looks only whether such a process lives. That no server of ours uses
    the data is known from our lock; one that was started by hand is known by its command line.
    """
    pid_file = data / "postmaster.pid"
    if not pid_file.exists():
        return
    pid = pid_file.read_text().partition("\n")[0].strip()
    if not pid.isdigit() or not any(str(data) in argument for argument in command_line(int(pid))):
        pid_file.unlink()


def _initialise(data: Path, binary: Binary, record: Record) -> None:
    """Under another name until it is complete, so that an interrupted one is simply made again."""
    unfinished = data.with_name("data.new")
    password_file = data.with_name("password")
    shutil.rmtree(unfinished, ignore_errors=True)
    write_private(password_file, record.password, uid=uid_of(record.account))
    options = [f"--username={USER}", f"--pwfile={password_file}", "--auth=scram-sha-256"]
    options += ["--encoding=UTF8", "--locale=C", f"--pgdata={unfinished}"]
    command = launcher(record.account, "run", str(binary.path.with_name("initdb")), *options)
    try:
        made = subprocess.run(
            command, env=clean_environment(), capture_output=True, text=True, check=False, cwd="/"
        )
    finally:
        password_file.unlink()
    if made.returncode:
        lines = (made.stdout + made.stderr).strip().splitlines()[-10:]
        raise RunFailed(f"initdb could not make {data}:" + "".join(f"\n  | {line}" for line in lines))
    unfinished.rename(data)
