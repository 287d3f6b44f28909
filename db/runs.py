"""Runs by name."""

from db.connection import Connection, Row
from db.errors import UnknownRun
from db.queries import SQL


def find_run(connection: Connection, run_id: str) -> Row:
    """The run of that name.

    Raises:
        UnknownRun: there is none; the message lists the newest ones.
    """
    row = connection.execute(SQL["find_run"], {"run_id": run_id}).fetchone()
    if row is None:
        newest = [run["run_id"] for run in list_runs(connection, most=5)]
        known = f"The newest are: {', '.join(newest)}." if newest else "There are no runs yet."
        raise UnknownRun(f"No run is named {run_id!r}. {known}")
    return row


def list_runs(connection: Connection, *, most: int) -> list[Row]:
    """The newest runs first."""
    return connection.execute(SQL["list_runs"], {"most": most}).fetchall()


def pause_run(connection: Connection, *, run_id: str, reason: str) -> None:
    """running -> paused: what waits in the broker goes back, calls in flight finish."""
    run = find_run(connection, run_id)["id"]
    with connection.transaction():
        connection.execute(SQL["pause_run"], {"run": run, "reason": reason})
        connection.execute(SQL["unqueue_run"], {"run": run})


def resume_run(connection: Connection, *, run: int) -> None:
    """paused -> running; a run that is running or finished stays as it is."""
    connection.execute(SQL["resume_run"], {"run": run})
