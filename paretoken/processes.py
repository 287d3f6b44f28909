"""The two processes that do the work, as commands, and as children of `run`."""

import logging
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from paretoken.errors import RunFailed
from paretoken.services import Services, own_services, require_reachable
from paretoken.settings import BROKER_URL, DATABASE_URL

SCHEDULER = "scheduler"
LEASE_S = 30.0
_STOP_S = 660.0

_Lease = Annotated[
    float,
    typer.Option(
        "--lease-s", min=1, help="Seconds after its last sign of life when a worker counts as gone."
    ),
]
# Set by `run`: the child ends when its standard input does, so that it never outlives a killed parent.
_UntilStdinCloses = Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)]


def scheduler(lease_s: _Lease = LEASE_S, until_stdin_closes: _UntilStdinCloses = False) -> None:
    """Feed the workers of all runs: dispatch jobs, take back what was lost, finish runs.

    One at a time is at work, others stand by.

    Example: paretoken scheduler
    """
    from scheduler.service import serve

    services = _ready(until_stdin_closes)
    serve(database_url=services.database_url, broker_url=services.broker_url, lease_s=lease_s)


def worker(
    concurrency: Annotated[int, typer.Option(min=1, help="Calls in flight at the most.")] = 64,
    lease_s: _Lease = LEASE_S,
    until_stdin_closes: _UntilStdinCloses = False,
) -> None:
    """Make the calls. Start one per core, on as many machines as wanted, with the same two URLs.

    SIGTERM ends it gracefully: calls in flight finish, everything else goes back to the queue.

    Example: paretoken worker --concurrency 64
    """
    from workers.engine import EngineSettings
    from workers.process import run_worker

    services = _ready(until_stdin_closes)
    run_worker(
        EngineSettings(
            database_url=services.database_url,
            broker_url=services.broker_url,
            concurrency=concurrency,
            lease_s=lease_s,
        )
    )


def _ready(until_stdin_closes: bool) -> Services:
    from db.migration import require_current

    services = own_services()
    _log_to_stderr()
    if until_stdin_closes:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    require_reachable(services.broker_url)
    require_current(services.database_url)
    return services


def _log_to_stderr() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    # One line per request or message would be most of the log and much of the work.
    for chatty in ("httpx2", "celery", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _end_with_stdin() -> None:
    # Not sys.stdin: its lock, held by this thread, would break the interpreter's shutdown.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass(kw_only=True)
class Crew:
    """A scheduler and its workers as children of this process, their output in log files."""

    services: Services
    logs: Path
    lease_s: float = LEASE_S
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of the children, in their order."""
    _said: set[str] = field(default_factory=set)

    def start(self, *, workers: int, concurrency: int) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        self._spawn(SCHEDULER, ["scheduler", f"--lease-s={self.lease_s}"])
        for number in range(1, workers + 1):
            self._spawn(
                f"worker-{number}", ["worker", f"--concurrency={concurrency}", f"--lease-s={self.lease_s}"]
            )

    def _spawn(self, name: str, arguments: list[str]) -> None:
        environment = os.environ | {
            DATABASE_URL: self.services.database_url,
            BROKER_URL: self.services.broker_url,
        }
        self.names.append(name)
        with (self.logs / f"{name}.log").open("ab") as log:
            self.children.append(
                subprocess.Popen(
                    [sys.executable, "-m", "paretoken", *arguments, "--until-stdin-closes"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    # Ctrl-C is the parent's: it lets the children finish their calls.
                    start_new_session=True,
                )
            )

    def require_alive(self) -> None:
        """Say which workers ended by themselves, since the others go on without them.

        Raises:
            RunFailed: the scheduler, or the last worker, has ended.
        """
        ended = [
            name for name, child in zip(self.names, self.children, strict=True) if child.poll() is not None
        ]
        if SCHEDULER in ended or (ended and len(ended) == len(self.children) - 1):
            raise RunFailed(f"{self._end_of(ended[0])}. The same command continues the run.")
        for name in ended:
            if name not in self._said:
                self._said.add(name)
                typer.echo(f"Warning: {self._end_of(name)}", err=True)

    def _end_of(self, name: str) -> str:
        log = self.logs / f"{name}.log"
        code = self.children[self.names.index(name)].returncode
        lines = log.read_text(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "nothing")
        return f"{name} ended by itself (exit code {code}); its log {log} ends with: {last}"

    def stop(self) -> None:
        """End all gracefully; calls in flight finish."""
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin:
                child.stdin.close()
        self.children.clear()
        self.names.clear()
