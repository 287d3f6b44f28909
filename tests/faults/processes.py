"""Schedulers and workers as processes of a test that may end, freeze and replace them."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from paretoken.services import Services
from paretoken.settings import BROKER_URL, DATABASE_URL
from tests import warm
from tests.warm import Process
from workers.failpoints import VARIABLE

LEASE_S = 3.0
POLL_S = 0.05


class TooLate(AssertionError):
    """What was waited for did not come true."""


def until(condition: Callable[[], object], what: str, *, deadline_s: float = 60) -> None:
    """Wait for what other processes do. `TooLate` names what did not happen."""
    ends = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > ends:
            raise TooLate(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(POLL_S)


@dataclass(kw_only=True)
class Cast:
    """Everybody who works on a run, each with a log of its own."""

    services: Services
    logs: Path
    concurrency: int = 8
    lease_s: float = LEASE_S
    started: list[Process] = field(default_factory=list)

    def scheduler(self, failpoint: str = "", *, services: Services | None = None) -> Process:
        return self._start("scheduler", [], failpoint, services)

    def worker(self, failpoint: str = "", *, services: Services | None = None) -> Process:
        return self._start("worker", [f"--concurrency={self.concurrency}"], failpoint, services)

    def _start(
        self, what: str, options: list[str], failpoint: str, services: Services | None = None
    ) -> Process:
        where = services or self.services
        environment = os.environ | {DATABASE_URL: where.database_url, BROKER_URL: where.broker_url}
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{len(self.started):03d}-{what}.log").open("wb") as log:
            process = warm.start(
                [what, f"--lease-s={self.lease_s}", *options],
                environment | ({VARIABLE: failpoint} if failpoint else {}),
                log,
            )
        self.started.append(process)
        return process

    def log(self, process: Process) -> str:
        number = self.started.index(process)
        return next(self.logs.glob(f"{number:03d}-*.log")).read_text(errors="replace")

    def end(self) -> None:
        """End all at once."""
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait()


def freeze(process: Process) -> None:
    """Stop it where it stands; returns when the kernel has done so."""
    process.send_signal(signal.SIGSTOP)
    wait_until_frozen(process)


def wait_until_frozen(process: Process, *, deadline_s: float = 60) -> None:
    state = Path(f"/proc/{process.pid}/stat")
    until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "frozen", deadline_s=deadline_s)


def thaw(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
