"""`paretoken status`: how far a run is, once or until it ends."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from paretoken.errors import InputError

if TYPE_CHECKING:
    from db.reader import Reader, Row
    from paretoken.capacity import Capacity
    from paretoken.description import Pace
    from paretoken.services import Services
    from scheduler.progress import Progress

_Seen = TypeVar("_Seen")


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
    if run_id is None and watched:
        raise InputError(
            "--watch needs a run: paretoken status RUN_ID --watch. `paretoken status` lists them."
        )
    if run_id is None:
        _list(_glance(_newest), as_json=as_json)
    elif watched:
        _watch(run_id, as_json=as_json)
    else:
        _show(*_glance(partial(_look, run_id=run_id)), as_json=as_json)


def _glance(look: "Callable[[Reader, Services], _Seen]") -> "_Seen":
    """What is seen, at once where servers of this version's schema run.

    Where they do not, or will not answer, they are started and migrated, or it is said what is wrong.
    """
    from db import glance
    from db.revision import has_newest
    from paretoken.services import services_at_hand, started_services

    at_hand = services_at_hand()
    if at_hand is not None:
        with suppress(glance.NotSeen), glance.connect(at_hand.database_url) as reader:
            if has_newest(reader):
                return look(reader, at_hand)
    from db import connection as database

    with started_services(broker=False) as services, database.connect(services.database_url) as connection:
        return look(connection, services)


def _newest(connection: "Reader", _services: "Services") -> "list[Row]":
    from db.runs import list_runs

    return list_runs(connection, most=20)


def _look(
    connection: "Reader", services: "Services", run_id: str
) -> "tuple[Progress, Sequence[Capacity] | None]":
    from scheduler.progress import progress

    seen = progress(connection, run_id)
    return seen, _lanes(connection, services, seen)


def _lanes(connection: "Reader", services: "Services", seen: "Progress") -> "Sequence[Capacity] | None":
    """What the limiter allows a run now; nothing where it does not run, None where the broker does not answer."""
    if seen.state != "running":
        return ()
    from paretoken.capacity import capacities

    return capacities(connection, services.broker_url, run=seen.run)


def _list(runs: "Sequence[Row]", *, as_json: bool) -> None:
    from analysis.safetext import terminal_text

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


def _show(seen: "Progress", lanes: "Sequence[Capacity] | None", *, as_json: bool) -> None:
    from analysis.safetext import terminal_text
    from paretoken.description import describe

    if as_json:
        typer.echo(_json(_document(seen, lanes)))
    else:
        simulated = " (simulated gateway)" if seen.simulated else ""
        typer.echo(terminal_text(f"run {seen.run_id}: {seen.state}{simulated}"))
        for line in (*describe(seen), *_capacity(lanes)):
            typer.echo(line)
    if needs_attention(seen):
        raise typer.Exit(1)


def _watch(run_id: str, *, as_json: bool) -> None:
    """Until the run goes on no more; its outcome is the exit code."""
    import sys

    from db import connection as database
    from paretoken.live import looks, now_and_then, watch
    from paretoken.services import started_services

    with started_services(broker=False) as services, database.connect(services.database_url) as connection:
        if as_json:
            for seen, pace in now_and_then(looks(connection, run_id)):
                lanes = _lanes(connection, services, seen)
                typer.echo(_json(_document(seen, lanes, pace), indent=None))
        else:
            seen = watch(
                connection,
                run_id,
                more=lambda now: _capacity(_lanes(connection, services, now)),
                out=sys.stdout,
            )
    if seen.state != "finished" or needs_attention(seen):
        raise typer.Exit(1)


def needs_attention(seen: "Progress") -> bool:
    """Whether the run is paused, or holds trials that failed, went over their budget or wait for a person."""
    return seen.state == "paused" or any(seen.trials.get(s) for s in ("failed", "over_budget", "review"))


def _capacity(lanes: "Sequence[Capacity] | None") -> Sequence[str]:
    """What the limiter allows now, as lines that are safe for a terminal."""
    if lanes == ():
        return []
    from analysis.safetext import terminal_text
    from paretoken.capacity import capacity_lines

    return [terminal_text(line) for line in capacity_lines(lanes)]


def _document(
    seen: "Progress", lanes: "Sequence[Capacity] | None", pace: "Pace | None" = None
) -> dict[str, Any]:
    """Everything that is known of the run now; with a pace, what was measured since the watching began."""
    document = asdict(seen) | {"capacity": None if lanes is None else [asdict(lane) for lane in lanes]}
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
