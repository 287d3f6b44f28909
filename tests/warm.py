"""`paretoken` processes that start at once: forks of an interpreter that has imported everything.

A scheduler, worker or simulated gateway takes seconds of CPU to import its libraries, and the tests start hundreds. A
fork runs the same `main` with its own arguments, environment, standard input and outputs; the commands as a user starts
them are left to the acceptance tests.
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import IO, Any
from unittest.mock import patch

import paretoken.simulator
from paretoken.simulator import SimulatedGateway

_MOST_BYTES = 1 << 17


class Process:
    """The part of `subprocess.Popen` that is needed, for a child of the warm interpreter."""

    def __init__(
        self, pid: int, arguments: Sequence[str], stdin: IO[bytes] | None, stdout: IO[bytes] | None = None
    ) -> None:
        self.pid = pid
        self.args = arguments
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(pid)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._pidfd], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = _ask(["reap", self.pid])
            os.close(self._pidfd)
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def start(
    arguments: Sequence[str], environment: Mapping[str, str], log: IO[bytes], *, stdin: bool = False
) -> Process:
    """`paretoken` with these arguments; with `stdin`, its standard input is a pipe, which is empty otherwise."""
    pid, pipe = _fork("paretoken.cli:main", arguments, environment, log, log)
    if not stdin:
        pipe.close()
    return Process(pid, arguments, pipe if stdin else None)


def launch(**options: Any) -> SimulatedGateway:
    """`paretoken.simulator.launch`."""
    with patch("paretoken.simulator.process._begin", _gateway):
        return paretoken.simulator.launch(**options)


def _gateway(arguments: Sequence[str], complaints: IO[bytes]) -> Process:
    read, write = os.pipe()
    with open(write, "wb") as answers:  # noqa: PTH123
        pid, pipe = _fork("paretoken.simulator.__main__:main", arguments, os.environ, answers, complaints)
    return Process(pid, arguments, pipe, open(read, "rb"))  # noqa: PTH123


def _fork(
    main: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdout: IO[bytes],
    stderr: IO[bytes],
) -> tuple[int, IO[bytes]]:
    """The new process, and the pipe that is its standard input."""
    read, write = os.pipe()
    try:
        pid = _ask(
            ["fork", main, list(arguments), dict(environment)], [read, stdout.fileno(), stderr.fileno()]
        )
    finally:
        os.close(read)
    return pid, open(write, "wb")  # noqa: PTH123


def _ask(question: list[object], files: Sequence[int] = ()) -> int:
    server = _server()
    socket.send_fds(server, [json.dumps(question).encode()], list(files))
    return int(server.recv(32))


@cache
def _server() -> socket.socket:
    """One warm interpreter for the session; it ends when this process does."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, its):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    with its:
        command = [sys.executable, "-m", "tests.warm", str(its.fileno())]
        _servers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()]))
    return ours


_servers: list["subprocess.Popen[bytes]"] = []


def _serve(asked: socket.socket) -> None:
    """Answer questions until the other side is gone."""
    import kombu.transport.redis  # noqa: F401

    import paretoken.simulator.server  # noqa: F401
    import workers.process  # noqa: F401

    # A fork's collections leave alone what is here: to touch it would copy it.
    gc.freeze()
    while True:
        text, files, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        if not text:
            return
        what, *values = json.loads(text)
        if what == "reap":
            answer = os.waitstatus_to_exitcode(os.waitpid(values[0], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                asked.close()
                _become(*values, *files)
                return
        for file in files:
            os.close(file)
        asked.send(str(answer).encode())


def _become(main: str, arguments: list[str], environment: dict[str, str], *files: int) -> None:
    from workers import failpoints

    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    failpoints.arm(os.environ.get(failpoints.VARIABLE))
    sys.argv = ["paretoken", *arguments]
    module, _, name = main.partition(":")
    getattr(import_module(module), name)()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
