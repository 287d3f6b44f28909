"""`paretoken status`: how far a run is."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from db.connection import Connection
    from scheduler.progress import Progress


def status(
    run_id: Annotated[str | None, typer.Argument(help="Without it: the newest runs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for a script.")] = False,
) -> None:
    """Say how far a run is, what it used and what it waits for; exit code 1 where trials need attention.

    Example: paretoken status arena --json
    """
    from db import connection as database
    from paretoken.services import started_services

    with started_services(broker=False) as services, database.connect(services.database_url) as connection:
        if run_id is None:
            _list(connection, as_json=as_json)
        else:
            _show(connection, services.broker_url, run_id, as_json=as_json)


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


def _show(connection: "Connection", broker_url: str, run_id: str, *, as_json: bool) -> None:
    from analysis.safetext import terminal_text
    from paretoken.capacity import capacities, capacity_lines
    from paretoken.live import describe
    from scheduler.progress import progress

    seen = progress(connection, run_id)
    lanes = capacities(connection, broker_url, run=seen.run) if seen.state == "running" else []
    if as_json:
        typer.echo(_json(asdict(seen) | {"capacity": [asdict(lane) for lane in lanes]}))
    else:
        simulated = " (simulated gateway)" if seen.simulated else ""
        typer.echo(f"run {seen.run_id}: {seen.state}{simulated}")
        if seen.reason:
            typer.echo(terminal_text(seen.reason))
        for line in (*describe(seen), *map(terminal_text, capacity_lines(lanes))):
            typer.echo(line)
    if needs_attention(seen):
        raise typer.Exit(1)


def needs_attention(seen: "Progress") -> bool:
    """Whether the run is paused, or holds trials that ended without an answer."""
    return seen.state == "paused" or any(seen.trials.get(s) for s in ("failed", "over_budget", "review"))


def _json(value: object) -> str:
    import json

    return json.dumps(value, default=str, indent=2)
