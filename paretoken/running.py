"""`paretoken run` and `paretoken demo`: one experiment from its file to its tables, with all that it needs."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.wording import counted
from paretoken.errors import RunFailed
from paretoken.interrupts import uninterrupted
from paretoken.reporting import Out, Page, folder, options, show, writable, write

if TYPE_CHECKING:
    from db.connection import Connection
    from paretoken.services import Services
    from paretoken.simulator import SimulatedGateway
    from scheduler.experiment import LoadedExperiment
    from scheduler.plan import Plan
    from scheduler.progress import Progress
    from workers.keys import Key

Workers = Annotated[int, typer.Option(min=0, help="Worker processes to start; 0 leaves the work to others.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Calls in flight per worker at the most.")]

# The demo's gateway answers like a quick real one.
DEMO_LATENCY_MS = 150.0
LEDGER = "ledger.jsonl"
# What the simulated gateway served, row by row, for whoever wants to compare the ledger with it.
SERVED = "served.jsonl"


def run(
    experiment: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    *,
    out: Out = None,
    run_id: Annotated[
        str | None, typer.Option(help="Name of the run; default: the file's, or made from it.")
    ] = None,
    workers: Workers = 2,
    concurrency: Concurrency = 64,
    page: Page = True,
) -> None:
    """Run an experiment, or continue it where it stopped, and write its tables.

    Starts a scheduler and workers of its own; more workers may join from other machines.
    Without the two URL variables it uses embedded servers. Ctrl-C pauses it: calls in flight finish; pressed once more
    it ends at once, and they count as unknown.

    Example: paretoken run my.toml
    """
    run_experiment(experiment, out=out, run_id=run_id, workers=workers, concurrency=concurrency, page=page)


def demo(out: Out = None, workers: Workers = 2, concurrency: Concurrency = 64, page: Page = True) -> None:
    """Run the arena example on a simulated gateway: no key, no cost, about a minute. Every demo is a run of its own.

    Example: paretoken demo --out demo
    """
    with demo_experiment() as experiment:
        run_experiment(
            experiment,
            out=out,
            run_id=f"demo-{datetime.now():%Y%m%d-%H%M%S}",
            workers=workers,
            concurrency=concurrency,
            latency_ms=DEMO_LATENCY_MS,
            page=page,
        )


def run_experiment(
    path: Path,
    *,
    out: Path | None,
    run_id: str | None,
    workers: int,
    concurrency: int,
    latency_ms: float = 0.0,
    page: bool = True,
) -> None:
    """Everything from the file to the tables. What it starts it stops, whatever happens.

    Raises:
        RunFailed: the run was paused or cancelled, or trials ended without an answer; the tables are written.
    """
    from scheduler.experiment import load
    from workers.keys import SIMULATED_KEY, read_key

    signal.signal(signal.SIGTERM, _interrupt)
    loaded = load(path, run_id=run_id)
    # Whatever only the analysis would refuse is refused before anything is paid for.
    options(loaded.document())
    gateway = loaded.settings.gateway
    key = SIMULATED_KEY if gateway.simulate else read_key(gateway.api_key_env)
    logs = _logs(loaded.run_id)
    files = folder(loaded.run_id, out)
    with contextlib.ExitStack() as stack:
        from paretoken.services import started_services
        from paretoken.settings import read_settings

        if read_settings().database_url is None:
            typer.echo("Starting the servers …", err=True)
        services = stack.enter_context(started_services())
        simulated = None
        if gateway.simulate:
            simulated = stack.enter_context(_simulated_gateway(loaded, logs / SERVED, latency_ms))
        work = Work(
            services=services, loaded=loaded, key=key, simulated=simulated, logs=logs, files=files, page=page
        )
        seen = _work(work, workers=workers, concurrency=concurrency)
    _end(seen)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends a run as Ctrl-C does: calls in flight finish, and what was started is stopped."""
    raise KeyboardInterrupt


def _logs(run_id: str) -> Path:
    from paretoken.settings import HOME, read_settings

    logs = read_settings().home / "logs" / run_id
    return writable(logs, otherwise=f"Set {HOME} to a writable folder.")


def _simulated_gateway(loaded: "LoadedExperiment", record: Path, latency_ms: float) -> "SimulatedGateway":
    from paretoken.simulator import launch

    return launch(
        tasks=loaded.path.parent / loaded.settings.tasks,
        seed=loaded.settings.seed or 0,
        record=record,
        latency_ms=latency_ms,
    )


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one run works with."""

    services: "Services"
    loaded: "LoadedExperiment"
    key: "Key"
    simulated: "SimulatedGateway | None"
    logs: Path
    files: Path
    page: bool

    @property
    def base_url(self) -> str | None:
        return self.simulated.base_url if self.simulated else self.loaded.base_url


def _work(work: Work, *, workers: int, concurrency: int) -> "Progress":
    from db import connection as database
    from db.runs import calls_in_flight
    from paretoken.ledger import write_ledger

    with database.connect(work.services.database_url) as connection:
        planned = _plan(connection, work)
        seen = _until_done(connection, work, planned, workers=workers, concurrency=concurrency)
        if out := calls_in_flight(connection, run=planned.run).calls:
            typer.echo(f"Warning: {counted(out, 'call')} still in flight: not in the files.", err=True)
        typer.echo(f"Writing the files of run {planned.run_id}.", err=True)
        write_ledger(connection, planned.run_id, work.files / LEDGER)
        if work.simulated:
            _copy(work.logs / SERVED, work.files / SERVED)
        summary = write(connection, planned.run_id, work.files, page=work.page)
    show(
        summary,
        simulated=work.simulated is not None,
        more=(LEDGER, SERVED) if work.simulated else (LEDGER,),
    )
    return seen


def _plan(connection: "Connection", work: Work) -> "Plan":
    from analysis.safetext import terminal_text
    from db.runs import resume_run
    from scheduler.plan import plan

    planned = plan(connection, work.loaded, key_fingerprint=work.key.fingerprint, base_url=work.base_url)
    for warning in planned.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    verb = "continues" if planned.continued else "starts"
    typer.echo(
        f"Run {planned.run_id} {verb}: {counted(planned.trials, 'trial')}, "
        f"{counted(planned.jobs, 'call')} planned so far.",
        err=True,
    )
    for judge in work.loaded.estimates():
        typer.echo(terminal_text(judge.line()), err=True)
    if planned.continued:
        resume_run(connection, run=planned.run)
    elif work.simulated:
        # What an earlier run of this name left behind, in a database that is gone.
        work.simulated.clear_record()
    return planned


def _copy(source: Path, target: Path) -> None:
    from analysis.destination import destination
    from paretoken.errors import InputError

    try:
        place = destination(target)
        unfinished = place.with_name(f".{place.name}.{os.getpid()}")
        shutil.copyfile(source, unfinished)
        unfinished.replace(place)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}).") from None


def _until_done(
    connection: "Connection", work: Work, planned: "Plan", *, workers: int, concurrency: int
) -> "Progress":
    from db.runs import pause_run
    from paretoken.live import watch
    from paretoken.processes import Crew
    from scheduler.progress import progress

    seen = progress(connection, planned.run_id)
    if seen.state != "running":
        typer.echo(f"It is {seen.state}: nothing is left to do but its tables.", err=True)
        return watch(connection, planned.run_id)
    crew = Crew(services=work.services, logs=work.logs)
    try:
        crew.start(workers=workers, concurrency=concurrency)
        return watch(connection, planned.run_id, alive=crew.require_alive)
    except KeyboardInterrupt:
        with uninterrupted():
            pause_run(connection, run=planned.run, reason="Interrupted at the keyboard.")
            typer.echo(
                "Stopping: calls in flight finish, or with Ctrl-C once more count as unknown. "
                f"Run {planned.run_id} goes on with `paretoken run` on its file, which also writes its files; "
                f"for them now: paretoken report {planned.run_id}",
                err=True,
            )
        raise
    finally:
        crew.stop()


def _end(seen: "Progress") -> None:
    from paretoken.status import needs_attention

    if seen.state != "finished":
        reason = f": {seen.reason}" if seen.reason else "."
        raise RunFailed(f"Run {seen.run_id} is {seen.state}{reason}")
    if needs_attention(seen):
        bad = ", ".join(
            f"{seen.trials[s]} {s}" for s in ("failed", "over_budget", "review") if seen.trials.get(s)
        )
        hint = f" Decide on those in review: paretoken review {seen.run_id}" if "review" in bad else ""
        raise RunFailed(f"Run {seen.run_id} is finished, but not every trial has an answer: {bad}.{hint}")


@contextlib.contextmanager
def demo_experiment() -> Iterator[Path]:
    """The arena example in a folder of its own, so that nothing is written beside the program."""
    with tempfile.TemporaryDirectory(prefix="paretoken-demo-") as scratch:
        shutil.copytree(_arena(), scratch, dirs_exist_ok=True)
        yield Path(scratch) / "experiment.toml"


def _arena() -> Path:
    """The example: beside the packages in a checkout, inside this one where it was installed from a wheel."""
    here = Path(__file__).resolve().parent
    checkout = here.parent / "examples" / "arena"
    return checkout if checkout.is_dir() else here / "arena"
