"""Runs by name."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from db.errors import ImportedRun, UnknownRun
from db.queries import SQL
from db.reader import Reader, Row
from db.text import to_database

if TYPE_CHECKING:
    from db.connection import Connection

RUN_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""A run's name is also the name of its folder."""


def find_run(connection: Reader, run_id: str) -> Row:
    """The run of that name.

    Raises:
        UnknownRun: there is none; the message lists the newest ones.
    """
    row = connection.execute(SQL["find_run"], {"run_id": to_database(run_id)}).fetchone()
    if row is None:
        newest = [run["run_id"] for run in list_runs(connection, most=5)]
        known = f"The newest are: {', '.join(newest)}." if newest else "There are no runs yet."
        raise UnknownRun(f"No run is named {run_id!r}. {known}")
    return row


def list_runs(connection: Reader, *, most: int) -> list[Row]:
    """The newest runs first."""
    return connection.execute(SQL["list_runs"], {"most": most}).fetchall()


def pause_run(connection: "Connection", *, run: int, reason: str) -> bool:
    """running -> paused: what waits in the broker goes back, calls in flight finish. False where it was not running."""
    with connection.transaction():
        paused = connection.execute(SQL["pause_run"], {"run": run, "reason": reason}).rowcount
        connection.execute(SQL["unqueue_run"], {"run": run})
    return bool(paused)


def resume_run(connection: "Connection", *, run: int) -> bool:
    """paused -> running. False where it was not paused."""
    row = connection.execute(SQL["resume_run"], {"run": run}).fetchone()
    return row is not None


def cancel_run(connection: "Connection", *, run: int) -> bool:
    """-> cancelled for good: open trials and jobs are cancelled, calls in flight finish and are counted.

    False where the run was finished or cancelled before.
    """
    with connection.transaction():
        trials = [row["id"] for row in connection.execute(SQL["open_trials"], {"run": run})]
        cancelled = connection.execute(SQL["cancel_run"], {"run": run}).rowcount
        if cancelled:
            connection.execute(SQL["cancel_trials"], {"trials": trials})
            connection.execute(SQL["cancel_judgings"], {"run": run})
            connection.execute(SQL["cancel_jobs"], {"run": run})
    return bool(cancelled)


def retry_trials(connection: "Connection", *, run: int, state: str) -> int:
    """Give the trials that ended in this state another chance; give how many.

    Only jobs that failed or were cancelled are done again: answers that were paid for stay. A trial without any such
    job, whose answer failed its checks or that used up its steps, gets a new try with all of its jobs.

    Raises:
        ImportedRun: there is nothing to do it with.
    """
    _refuse_imported(connection, run)
    with connection.transaction():
        rows = connection.execute(SQL["retry_trials"], {"run": run, "state": state}).fetchall()
        trials = [row["id"] for row in rows]
        if trials:
            connection.execute(SQL["judge_anew"], {"run": run})
            connection.execute(SQL["void_judgings"], {"trials": trials})
            connection.execute(SQL["renew_trials"], {"trials": trials})
            connection.execute(SQL["add_openings"], {"trials": trials})
            connection.execute(SQL["retry_jobs"], {"trials": trials})
            connection.execute(SQL["mark_due"], {"trials": trials})
            connection.execute(SQL["reopen_run"], {"run": run})
    return len(trials)


def _refuse_imported(connection: "Connection", run: int) -> None:
    row = connection.execute(SQL["imported_run"], {"run": run}).fetchone()
    if row is not None:
        raise ImportedRun(
            f"Run {row['run_id']!r} was imported from a ledger, which holds no task: it can be reported, not run. "
            "Plan it from its experiment file under another run_id."
        )


@dataclass(frozen=True)
class InFlight:
    """Calls of a run that were started and have no outcome yet."""

    calls: int
    awaited: int
    """Those of workers that live, or died so lately that they may still get an outcome."""


def calls_in_flight(connection: Reader, *, run: int) -> InFlight:
    """The calls of the run that are out."""
    row = connection.execute(SQL["calls_in_flight"], {"run": run}).fetchone()
    assert row is not None
    return InFlight(**row)
