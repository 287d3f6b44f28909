"""Dispatching and reaping in Postgres: what may be queued, what was lost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from db.connection import Connection
from db.queries import SQL

_DISPATCHER_LOCK = 0x64697370

Shard = list[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class OpenLane:
    """A lane of a running run that may be given jobs now."""

    run: int
    lane: int
    proven: bool
    queued: int
    running: int
    tokens_left: int | None
    """What the run's budget still allows; None without one."""
    cost_left_usd: float | None


def try_lock(connection: Connection) -> bool:
    """Become the one dispatcher, for as long as the connection lives."""
    row = connection.execute(SQL["try_dispatcher_lock"], {"key": _DISPATCHER_LOCK}).fetchone()
    return bool(row and row["held"])


def open_lanes(connection: Connection) -> list[OpenLane]:
    return [OpenLane(**row) for row in connection.execute(SQL["open_lanes"]).fetchall()]


def dispatch(connection: Connection, *, lane: OpenLane, most: int) -> tuple[Shard, datetime | None]:
    """pending -> queued on this lane; give the pairs (job, dispatch_no) in order, and when it was done."""
    rows = connection.execute(
        SQL["dispatch"],
        {
            "run": lane.run,
            "lane": lane.lane,
            "most": most,
            "tokens_left": lane.tokens_left,
            "cost_left_usd": lane.cost_left_usd,
        },
    ).fetchall()
    return [(row["id"], row["dispatch_no"]) for row in rows], rows[0]["dispatched_at"] if rows else None


def stuck_on_budget(connection: Connection, *, run: int) -> bool:
    """Whether nothing but the budget keeps the run from going on."""
    row = connection.execute(SQL["stuck_on_budget"], {"run": run}).fetchone()
    return bool(row and row["stuck"])


def pause_run(connection: Connection, *, run: int, reason: str) -> None:
    with connection.transaction():
        connection.execute(SQL["pause_run"], {"run": run, "reason": reason})
        connection.execute(SQL["unqueue_run"], {"run": run})


def finish_runs(connection: Connection) -> list[str]:
    """Finish the runs of which no trial is open; give their names."""
    return [row["run_id"] for row in connection.execute(SQL["finish_runs"]).fetchall()]


def postgres_up_s(connection: Connection) -> float:
    """Seconds since Postgres was started."""
    row = connection.execute(SQL["postgres_started"]).fetchone()
    assert row is not None
    return float(row["up_s"])


def release_lost(connection: Connection) -> list[tuple[int, str]]:
    """Take the jobs of workers whose lease is over; give (job, new state) of each."""
    with _locked_lost_workers(connection) as workers:
        if not workers:
            return []
        jobs = connection.execute(SQL["jobs_of_lost_workers"], {"workers": workers}).fetchall()
        calls = connection.execute(SQL["started_calls_of_lost_workers"], {"workers": workers}).fetchall()
        trials = sorted({row["trial"] for row in jobs if row["trial"] is not None})
        connection.execute(SQL["lock_trials"], {"trials": trials})
        connection.execute(SQL["lock_jobs"], {"jobs": sorted({row["job"] for row in (*jobs, *calls)})})
        released = connection.execute(SQL["release_lost"], {"workers": workers}).fetchall()
        connection.execute(SQL["mark_due"], {"trials": trials})
    return [(row["id"], row["state"]) for row in released]


@contextmanager
def _locked_lost_workers(connection: Connection) -> Iterator[list[str]]:
    with connection.transaction():
        yield [row["name"] for row in connection.execute(SQL["lost_workers"]).fetchall()]


def unqueue_lost(connection: Connection, *, before: datetime) -> Sequence[int]:
    """queued -> pending for what was dispatched before that time: its messages are gone."""
    return [row["id"] for row in connection.execute(SQL["unqueue_lost"], {"before": before}).fetchall()]


def database_time(connection: Connection) -> datetime:
    """The database's clock."""
    row = connection.execute("SELECT clock_timestamp() AS now").fetchone()
    assert row is not None
    now: datetime = row["now"]
    return now
