"""The two processes that do the work, as commands, and as children of `run`."""

import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from paretoken.errors import InputError, RunFailed
from paretoken.interrupts import hear_no_more, uninterrupted
from paretoken.services import Services, own_services, require_migrated, require_reachable
from paretoken.settings import BROKER_URL, DATABASE_URL

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = logging.getLogger(__name__)

SCHEDULER = "scheduler"
LEASE_S = 30.0
_STOP_S = 660.0

_Lease = Annotated[
    float,
    typer.Option(
        "--lease-s",
        min=1,
        max=3600,
        help="Seconds after its last sign of life when a worker counts as gone.",
    ),
]
_MetricsPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Serve metrics for Prometheus here; 0: at any free port."),
]
_MetricsHost = Annotated[str, typer.Option(help="Address to serve metrics at. They ask for no password.")]
_LOOPBACK = "127.0.0.1"

# Set by `run`: the child ends when its standard input does, so that it never outlives a killed parent.
_UntilStdinCloses = Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)]


def scheduler(
    lease_s: _Lease = LEASE_S,
    metrics_port: _MetricsPort = None,
    metrics_host: _MetricsHost = _LOOPBACK,
    until_stdin_closes: _UntilStdinCloses = False,
) -> None:
    """Feed the workers of all runs: dispatch jobs, take back what was lost, finish runs.

    One at a time is at work, others stand by.

    Example: paretoken scheduler
    """
    from scheduler.service import serve

    services = _ready(until_stdin_closes)
    metrics = None
    if metrics_port is not None:
        from scheduler.metrics import SchedulerMetrics

        metrics = SchedulerMetrics(database_url=services.database_url, broker_url=services.broker_url)
        _serve_metrics(metrics.registry, metrics_host, metrics_port)
    serve(
        database_url=services.database_url, broker_url=services.broker_url, lease_s=lease_s, metrics=metrics
    )


def worker(
    concurrency: Annotated[int, typer.Option(min=1, help="Calls in flight at the most.")] = 64,
    lease_s: _Lease = LEASE_S,
    metrics_port: _MetricsPort = None,
    metrics_host: _MetricsHost = _LOOPBACK,
    until_stdin_closes: _UntilStdinCloses = False,
) -> None:
    """Make the calls. Start one per core, on as many machines as wanted, with the same two URLs.

    SIGTERM ends it gracefully: calls in flight finish, everything else goes back to the queue.

    Example: paretoken worker --concurrency 64
    """
    from workers.engine import EngineSettings
    from workers.process import run_worker

    services = _ready(until_stdin_closes)
    metrics = None
    if metrics_port is not None:
        from workers.metrics import WorkerMetrics

        metrics = WorkerMetrics()
        _serve_metrics(metrics.registry, metrics_host, metrics_port)
    settings = EngineSettings(
        database_url=services.database_url,
        broker_url=services.broker_url,
        concurrency=concurrency,
        lease_s=lease_s,
    )
    run_worker(settings, metrics)


def _ready(until_stdin_closes: bool) -> Services:
    services = own_services()
    _log_to_stderr()
    if until_stdin_closes:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    require_reachable(services.broker_url)
    require_migrated(services.database_url)
    return services


def _serve_metrics(registry: "CollectorRegistry", host: str, port: int) -> None:
    from prometheus_client import start_http_server

    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise InputError(
            f"Metrics cannot be served at {host}:{port}: {error.strerror}. "
            "Give another --metrics-port or --metrics-host."
        ) from None
    log.info("Metrics at http://%s:%d/metrics", host, server.server_port)


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
            self.children.append(self.begin([*arguments, "--until-stdin-closes"], environment, log))

    def begin(
        self, arguments: list[str], environment: dict[str, str], log: IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        """Start a child; its standard input is a pipe."""
        return subprocess.Popen(
            [sys.executable, "-m", "paretoken", *arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            # Ctrl-C is the parent's: it lets the children finish their calls.
            start_new_session=True,
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
        """End all gracefully; calls in flight finish, unless Ctrl-C comes once more.

        Raises:
            KeyboardInterrupt: it came; all have ended.
        """
        try:
            for child in self.children:
                child.terminate()
            for child in self.children:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=_STOP_S)
        except KeyboardInterrupt:
            # Whoever is impatient presses it again, and what is stopped next would stay.
            hear_no_more()
            typer.echo("Ended at once: calls in flight count as unknown.", err=True)
            raise
        finally:
            # Nobody outlives the servers that may be stopped next.
            with uninterrupted():
                for child in self.children:
                    child.kill()
                    child.wait()
                    if child.stdin:
                        child.stdin.close()
        self.children.clear()
        self.names.clear()
