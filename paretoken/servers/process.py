"""One server as a process of the machine: running or not, started, stopped, its log.

A server is running when somebody holds the lock on its lock file (`launch.py` hands the lock on to it), so a
stale file, or a process id that was given to another program, cannot be taken for a server.
"""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

from paretoken.errors import RunFailed
from paretoken.servers import launch

STOP_WAIT_S = 60.0
REMAINS_WAIT_S = 20.0
LOG_TAIL_LINES = 15


@dataclass(frozen=True, kw_only=True)
class Process:
    """The daemon `name` whose lock and log lie in `folder`."""

    name: str
    folder: Path
    marker: str
    """Text that stands on this server's command line and on no other program's."""

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.name}.lock"

    def is_held(self) -> bool:
        """Whether the server, or a child that it left behind, is alive."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            # Shared, so that two askers do not take each other for the server.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def pid(self) -> int | None:
        """The server's process id, or None when it is not running."""
        if not self.is_held():
            return None
        text = self.lock.read_text()
        # A killed server's children hold the lock a little longer than it lives, and its id may be reused.
        if text.isdigit() and any(self.marker in argument for argument in command_line(int(text))):
            return int(text)
        return None

    def start(self, *, account: str, command: Sequence[str]) -> None:
        """Start `command` as a daemon."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.old"))
        arguments = [account, "daemon", str(self.lock), str(self.log), *command]
        code = subprocess.run(launcher(*arguments), env=clean_environment(), cwd="/", check=False).returncode
        if code:
            raise RunFailed(
                f"{self.name} could not be started (launcher's exit code {code}).{self.log_tail()}"
            )

    def wait_for_remains(self) -> None:
        """Wait for the children of a killed server. Raises `RunFailed` when they do not end."""
        if not wait_until(lambda: not self.is_held(), timeout_s=REMAINS_WAIT_S):
            raise RunFailed(
                f"{self.name}: processes of a killed server still use {self.folder}; end them, then start."
            )

    def stop(self, *, signal: Signals) -> None:
        """Send `signal` and wait for the end of the server and its children, if it runs."""
        pid = self.pid()
        if pid is not None:
            with suppress(ProcessLookupError):  # it may end by itself just now
                os.kill(pid, signal)
        if not wait_until(lambda: not self.is_held(), timeout_s=STOP_WAIT_S):
            raise RunFailed(
                f"{self.name} (process {pid}) has not ended {STOP_WAIT_S:.0f} s after {signal.name}; "
                f"its log is {self.log}.{self.log_tail()}"
            )

    def log_text(self) -> str:
        """What this start of the server has logged so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self) -> str:
        """The log's last lines, set out for the end of a message."""
        lines = self.log_text().splitlines()[-LOG_TAIL_LINES:]
        return "".join(f"\n  | {line}" for line in lines)


def launcher(*arguments: str) -> list[str]:
    """Command line of `launch.py`, in a Python that starts fast and reads nothing from the environment."""
    return [sys.executable, "-I", "-S", str(Path(launch.__file__)), *arguments]


def clean_environment() -> dict[str, str]:
    """Environment of the servers: plain locale and UTC, and none of the caller's keys or `PG…` variables."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", **kept}


def command_line(pid: int) -> list[str]:
    """Arguments of a living process; empty when there is none, or only a zombie."""
    if Path("/proc/self/cmdline").exists():
        try:
            text = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []
        return text.removesuffix("\0").split("\0") if text else []
    shown = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.splitlines()  # in one piece: where an argument ends is not told


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Whether `condition` came true in time. The servers are no children of ours, so it has to be asked."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
