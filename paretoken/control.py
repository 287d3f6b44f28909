"""`paretoken pause | resume | cancel | retry`: what a person does to a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.wording import counted
from paretoken.errors import InputError
from paretoken.reporting import RunId

if TYPE_CHECKING:
    from db.connection import Connection
    from db.reader import Row


class Retried(StrEnum):
    """The states from which trials can be tried again."""

    failed = "failed"
    review = "review"
    over_budget = "over_budget"


def pause(run_id: RunId) -> None:
    """Stop a run for now: nothing new is sent, calls in flight finish and are counted.

    Example: paretoken pause arena
    """
    from db.runs import pause_run

    with _run(run_id) as (connection, run):
        done = pause_run(connection, run=run["id"], reason="Paused by hand.")
        _require(done, run, "paused", "Only a running one can be paused.")
        typer.echo(
            f"Run {run_id} is paused{_in_flight(connection, run)}. Go on with: paretoken resume {run_id}, or where no "
            "worker is at work with `paretoken run` on its file."
        )


def resume(run_id: RunId) -> None:
    """Let a paused run go on; whatever paused it should be put right before.

    It goes on wherever a scheduler and workers are at work; `paretoken run` on its file brings its own.

    Example: paretoken resume arena
    """
    from db.runs import resume_run
    from scheduler.progress import progress

    with _run(run_id) as (connection, run):
        _require(resume_run(connection, run=run["id"]), run, "resumed", "Only a paused one can be resumed.")
        nobody = progress(connection, run_id).workers == 0
        alone = " No worker is there now: `paretoken run` on its file brings its own." if nobody else ""
        typer.echo(f"Run {run_id} goes on.{alone}")


def cancel(run_id: RunId) -> None:
    """End a run for good: open trials are cancelled, calls in flight finish and are counted.

    Example: paretoken cancel arena
    """
    from db.runs import cancel_run

    with _run(run_id) as (connection, run):
        _require(cancel_run(connection, run=run["id"]), run, "cancelled", "There is nothing left to cancel.")
        typer.echo(
            f"Run {run_id} is cancelled{_in_flight(connection, run)}. What it has is kept: paretoken report {run_id}"
        )


def retry(
    run_id: RunId,
    state: Annotated[Retried, typer.Option("--status", help="Which trials to try again.")],
) -> None:
    """Try the trials that ended in a state once more; answers that were paid for are kept.

    Example: paretoken retry arena --status failed
    """
    from db.runs import retry_trials

    with _run(run_id) as (connection, run):
        if run["state"] == "cancelled":
            raise InputError(
                f"Run {run_id!r} is cancelled, and that is final. Plan it anew under another run_id."
            )
        trials = retry_trials(connection, run=run["id"], state=state.value)
        if not trials:
            raise InputError(
                f"Run {run_id!r} has no trial in state {state.value!r}. See: paretoken status {run_id}"
            )
        typer.echo(
            f"{counted(trials, 'trial')} of run {run_id} {'is' if trials == 1 else 'are'} open again. "
            "Go on with `paretoken run` on its file."
        )


@contextmanager
def _run(run_id: str) -> "Iterator[tuple[Connection, Row]]":
    from db import connection as database
    from db.runs import find_run
    from paretoken.services import migrated_database

    with migrated_database() as database_url, database.connect(database_url) as connection:
        yield connection, find_run(connection, run_id)


def _in_flight(connection: "Connection", run: "Row") -> str:
    from db.runs import calls_in_flight

    calls = calls_in_flight(connection, run=run["id"]).awaited
    return f"; {counted(calls, 'call')} in flight will still be counted" if calls else ""


def _require(done: bool, run: "Row", participle: str, why: str) -> None:
    if not done:
        raise InputError(f"Run {run['run_id']!r} is {run['state']}: it cannot be {participle}. {why}")
