"""Starts, stops and describes the two servers of a data folder."""

import fcntl
import os
import pwd
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from typing import Protocol

from paretoken.errors import InputError, RunFailed
from paretoken.servers import accounts
from paretoken.servers import record as records
from paretoken.servers.binaries import Binary
from paretoken.servers.postgres import Postgres
from paretoken.servers.process import Process
from paretoken.servers.record import Record
from paretoken.servers.valkey import Valkey

ANSWER_WAIT_S = 60.0
START_ATTEMPTS = 10
PORT_TAKEN = "Address already in use"
MEMORY_IN_USE = "pre-existing shared memory block"
"""PostgreSQL's complaint when the kernel has not yet let go of a killed server's memory."""


class Engine(Protocol):
    """What the supervisor has to know of a kind of server."""

    name: str
    stop_signal: Signals

    def find(self) -> Binary:
        """The program. Raises `InputError` when there is none."""

    def marker(self, place: Path) -> str:
        """The argument of `command` that no other program's command line has."""

    def prepare(self, binary: Binary, record: Record, place: Path) -> None:
        """Make the data in `place` ready for a start."""

    def command(self, binary: Binary, record: Record, place: Path) -> list[str]:
        """Command line of the server, in the foreground and listening on loopback alone."""

    def url(self, record: Record, *, password: bool = True) -> str:
        """Where the server answers."""

    def problem(self, record: Record) -> str | None:
        """Why it does not answer yet; None when it does and can be used."""


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    """One server as it is now."""

    running: bool
    pid: int | None
    url: str | None
    """Without the password; None before the first start."""
    folder: Path
    """Where its data lies."""
    log: Path
    version: str | None
    """Of the program; None when none is found."""


class Server:
    """An engine together with what is kept of it in `folder`."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.path = folder / f"{engine.name}.json"

    def start(self) -> str:
        """URL of the server, which is started unless it is running."""
        record = records.read(self.path)
        if record is not None and self._process(record).pid() is not None and self._await_answer(record):
            return self.engine.url(record)
        return self._launch(record)

    def running_url(self) -> str | None:
        """URL of the server with its password; None where it does not run."""
        record = records.read(self.path)
        if record is None or record.port is None or self._process(record).pid() is None:
            return None
        return self.engine.url(record)

    def stop(self) -> None:
        record = records.read(self.path)
        if record is not None:
            self._process(record).stop(signal=self.engine.stop_signal)

    def status(self) -> ServerStatus:
        record = records.read(self.path)
        known = record or Record()
        process = self._process(known)
        pid = process.pid()
        return ServerStatus(
            running=pid is not None,
            pid=pid,
            url=None if known.port is None else self.engine.url(known, password=False),
            folder=known.place(self.folder, self.engine.name),
            log=process.log,
            version=self._version(),
        )

    def _process(self, record: Record) -> Process:
        name = self.engine.name
        return Process(
            name=name, folder=self.folder, marker=self.engine.marker(record.place(self.folder, name))
        )

    def _version(self) -> str | None:
        try:
            return self.engine.find().version
        except InputError:
            return None

    def _launch(self, record: Record | None) -> str:
        name = self.engine.name
        binary = self.engine.find()
        if record is None and (self.folder / name).exists():
            raise InputError(
                f"{self.path} is missing, but {self.folder / name} has data: restore it or move both away."
            )
        record = accounts.settle(record or Record(), self.folder, name)
        # Kept before anything is made with its password.
        records.write(self.path, record)
        place = record.place(self.folder, name)
        binary = accounts.runnable(binary, record.account, place)
        process = self._process(record)
        process.wait_for_remains()
        self.engine.prepare(binary, record, place)
        for _attempt in range(START_ATTEMPTS):
            record = replace(record, port=_free_port(record.port))
            records.write(self.path, record)
            process.start(account=record.account, command=self.engine.command(binary, record, place))
            if self._await_answer(record):
                return self.engine.url(record)
            if not any(reason in process.log_text() for reason in (PORT_TAKEN, MEMORY_IN_USE)):
                break
            time.sleep(0.1)
        raise RunFailed(f"{name} did not start; the end of its log {process.log}:{process.log_tail()}")

    def _await_answer(self, record: Record) -> bool:
        """True when it answers, False when it has ended. Raises `RunFailed` when neither is so in time."""
        process = self._process(record)
        deadline = time.monotonic() + ANSWER_WAIT_S
        while problem := self.engine.problem(record):
            # Not its process id: a process shows no command line while it becomes another program.
            if not process.is_held():
                return False
            if time.monotonic() > deadline:
                raise RunFailed(
                    f"{self.engine.name} runs but does not answer after {ANSWER_WAIT_S:.0f} s: {problem}; "
                    f"its log is {process.log}.{process.log_tail()}"
                )
            time.sleep(0.02)
        return True


def open_servers(home: Path) -> tuple[Server, Server]:
    """PostgreSQL and Valkey of the data folder `home`, in this order; touches nothing."""
    folder = servers_folder(home)
    return Server(Postgres(), folder), Server(Valkey(), folder)


def servers_folder(home: Path) -> Path:
    """Folder of both servers."""
    return home.resolve() / "servers"


def has_folder(home: Path) -> bool:
    """Whether servers were ever started in `home`. Raises `InputError` when that cannot be seen."""
    try:
        return servers_folder(home).exists()
    except OSError as error:
        raise _unusable(home, error) from error


def make_folder(home: Path) -> Path:
    """Make the servers' folder. Raises `InputError` when it cannot be used."""
    folder = servers_folder(home)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        owner = folder.stat().st_uid
        if owner == os.geteuid():
            # A server that runs as somebody else has to pass through; each file is private.
            folder.chmod(0o711)
    except OSError as error:
        raise _unusable(home, error) from error
    if owner != os.geteuid():
        raise InputError(
            f"{folder} belongs to {_user(owner)}: run as that user, or set PARETOKEN_HOME to another."
        )
    return folder


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Only one caller at a time starts or stops the servers of `folder`; the others wait."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _unusable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"The data folder {folder} cannot be used ({error.strerror}): set PARETOKEN_HOME to a writable one."
    )


def _free_port(wanted: int | None) -> int:
    """`wanted` where nobody listens on it, else one that is free now (and may be taken a moment later)."""
    for port in (wanted, 0) if wanted else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise InputError("No port is free on 127.0.0.1: end programs that listen there.")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
