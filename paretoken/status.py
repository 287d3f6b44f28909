"""`paretoken status`: how far a run is, once or until it ends."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paretoken.errors import InputError

if TYPE_CHECKING:
    from db.connection import Connection
    from paretoken.capacity import Capacity
    from paretoken.description import Pace
    from paretoken.services import Services
    from scheduler.progress import Progress


def status(
    run_id: Annotated[str | None, typer.Argument(help="Without it: the newest runs.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for a script; with --watch a line now and then.")
    ] = False,
    watched: Annotated[
        bool, typer.Option("--watch", help="Go on until the run ends: a live view, or plain lines in a log.")
    ] = False,
) -> None:
    """Say how far a run is, what it used and what it waits for.

    Exit code 1 where trials need attention or the run is paused; with --watch also where it was cancelled.

    Example: paretoken status arena --watch
    """
    from db import connection as database
    from paretoken.services import started_services

    if run_id is None and watched:
        raise InputError(
            "--watch needs a run: paretoken status RUN_ID --watch. `paretoken status` lists them."
        )
    with started_services(broker=False) as services, database.connect(services.database_url) as connection:
        if run_id is None:
            _list(connection, as_json=as_json)
        elif watched:
            _watch(connection, services, run_id, as_json=as_json)
        else:
            _show(connection, services, run_id, as_json=as_json)


def _list(connection: "Connection", *, as_json: bool) -> None:
    from analysis.safetext import terminal_text
    from db.runs import list_runs

    runs = list_runs(connection, most=20)
    if as_json:
        typer.echo(_json([dict(run) for run in runs]))
        return
    for run in runs:
        reason = f": {run['reason']}" if run["reason"] else ""
        typer.echo(
            terminal_text(f"{run['run_id']}  {run['state']}  {run['created_at']:%Y-%m-%d %H:%M}{reason}")
        )
    if not runs:
        typer.echo("There are no runs yet. Start one: paretoken demo")


def _show(connection: "Connection", services: "Services", run_id: str, *, as_json: bool) -> None:
    from paretoken.description import describe
    from scheduler.progress import progress

    seen = progress(connection, run_id)
    if as_json:
        typer.echo(_json(_document(connection, services, seen)))
    else:
        simulated = " (simulated gateway)" if seen.simulated else ""
        typer.echo(f"run {seen.run_id}: {seen.state}{simulated}")
        for line in (*describe(seen), *_capacity(connection, services, seen)):
            typer.echo(line)
    if needs_attention(seen):
        raise typer.Exit(1)


def _watch(connection: "Connection", services: "Services", run_id: str, *, as_json: bool) -> None:
    """Until the run goes on no more; its outcome is the exit code."""
    import sys

    from paretoken.live import looks, now_and_then, watch

    if as_json:
        for seen, pace in now_and_then(looks(connection, run_id)):
            typer.echo(_json(_document(connection, services, seen, pace), indent=None))
    else:
        seen = watch(
            connection, run_id, more=lambda now: _capacity(connection, services, now), out=sys.stdout
        )
    if seen.state != "finished" or needs_attention(seen):
        raise typer.Exit(1)


def needs_attention(seen: "Progress") -> bool:
    """Whether the run is paused, or holds trials that ended without an answer."""
    return seen.state == "paused" or any(seen.trials.get(s) for s in ("failed", "over_budget", "review"))


def _capacity(connection: "Connection", services: "Services", seen: "Progress") -> Sequence[str]:
    """What the limiter allows now, as lines that are safe for a terminal."""
    if seen.state != "running":
        return []
    from analysis.safetext import terminal_text
    from paretoken.capacity import capacities, capacity_lines

    found = capacities(connection, services.broker_url, run=seen.run)
    return [terminal_text(line) for line in capacity_lines(found)]


def _document(
    connection: "Connection", services: "Services", seen: "Progress", pace: "Pace | None" = None
) -> dict[str, Any]:
    """Everything that is known of the run now; with a pace, what was measured since the watching began."""
    lanes: Sequence[Capacity] = ()
    if seen.state == "running":
        from paretoken.capacity import capacities

        lanes = capacities(connection, services.broker_url, run=seen.run)
    document = asdict(seen) | {"capacity": [asdict(lane) for lane in lanes]}
    if pace is not None:
        document |= {
            "calls_per_s": pace.calls_per_s,
            "tokens_per_minute": pace.tokens_per_minute,
            "eta_s": pace.eta_s(seen),
        }
    return document


def _json(value: object, indent: int | None = 2) -> str:
    import json

    return json.dumps(value, default=str, indent=indent)
