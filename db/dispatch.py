"""Dispatching and reaping in Postgres: what may be queued, what was lost."""

from collections.abc import Mapping, Sequence
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
    trial_tokens: int | None
    """Budget of one trial; None without one."""
    trial_cost_usd: float | None

    @property
    def run_has_budget(self) -> bool:
        return self.tokens_left is not None or self.cost_left_usd is not None

    @property
    def trials_have_budget(self) -> bool:
        return self.trial_tokens is not None or self.trial_cost_usd is not None


@dataclass(frozen=True, kw_only=True)
class Dispatched:
    """What one dispatch has queued."""

    jobs: Shard
    """Pairs (job, dispatch_no), in the order in which they shall run."""
    at: datetime | None
    """When; None where nothing was queued."""
    reserved_tokens: int
    reserved_cost_usd: float


def try_lock(connection: Connection) -> bool:
    """Become the one dispatcher, for as long as the connection lives."""
    row = connection.execute(SQL["try_dispatcher_lock"], {"key": _DISPATCHER_LOCK}).fetchone()
    return bool(row and row["held"])


def open_lanes(connection: Connection) -> list[OpenLane]:
    return [OpenLane(**row) for row in connection.execute(SQL["open_lanes"]).fetchall()]


def dispatch(connection: Connection, *, lane: OpenLane, most: int) -> Dispatched:
    """pending -> queued on this lane, within the budgets."""
    rows = connection.execute(
        SQL["dispatch"], vars(lane) | {"most": most, "trials_have_budget": lane.trials_have_budget}
    ).fetchall()
    return Dispatched(
        jobs=[(row["id"], row["dispatch_no"]) for row in rows],
        at=rows[0]["dispatched_at"] if rows else None,
        reserved_tokens=sum(row["reserve_tokens"] for row in rows),
        reserved_cost_usd=sum(row["reserve_cost_usd"] or 0.0 for row in rows),
    )


def exhaust_trials(connection: Connection, *, lane: OpenLane, most: int) -> int:
    """End the trials whose budget does not cover their next job; give how many."""
    with connection.transaction():
        rows = connection.execute(SQL["trials_over_budget"], vars(lane) | {"most": most}).fetchall()
        trials = [row["trial"] for row in rows]
        if trials:
            connection.execute(SQL["lock_trials"], {"trials": trials})
            connection.execute(SQL["exhaust_trials"], {"trials": trials})
    return len(trials)


def stuck_on_budget(connection: Connection, *, lane: OpenLane) -> bool:
    """Whether nothing but the budget keeps the run of this lane from going on."""
    row = connection.execute(SQL["stuck_on_budget"], vars(lane)).fetchone()
    return bool(row and row["stuck"])


def finish_runs(connection: Connection) -> list[str]:
    """Finish the runs of which no trial and no judging is open; give their names."""
    return [row["run_id"] for row in connection.execute(SQL["finish_runs"]).fetchall()]


def postgres_up_s(connection: Connection) -> float:
    """Seconds since Postgres was started."""
    row = connection.execute(SQL["postgres_started"]).fetchone()
    assert row is not None
    return float(row["up_s"])


def release_lost(connection: Connection) -> list[tuple[int, str]]:
    """Take the jobs of workers whose lease is over; give (job, new state) of each."""
    with connection.transaction():
        workers = [row["name"] for row in connection.execute(SQL["lost_workers"]).fetchall()]
        if not workers:
            return []
        jobs = connection.execute(SQL["jobs_of_lost_workers"], {"workers": workers}).fetchall()
        calls = connection.execute(SQL["started_calls_of_lost_workers"], {"workers": workers}).fetchall()
        trials = sorted({row["trial"] for row in jobs if row["trial"] is not None})
        judgings = sorted({row["judging"] for row in jobs if row["judging"] is not None})
        connection.execute(SQL["lock_trials"], {"trials": trials})
        connection.execute(SQL["lock_judgings"], {"judgings": judgings})
        connection.execute(SQL["lock_jobs"], {"jobs": sorted({row["job"] for row in (*jobs, *calls)})})
        released = connection.execute(SQL["release_lost"], {"workers": workers}).fetchall()
        connection.execute(SQL["mark_judgings_due"], {"judgings": judgings})
        connection.execute(SQL["mark_due"], {"trials": trials})
    return [(row["id"], row["state"]) for row in released]


def forget_workers(connection: Connection) -> int:
    """Delete the workers whose lease has been over for a day and that hold nothing; give how many."""
    return connection.execute(SQL["forget_workers"]).rowcount


def lane_names(connection: Connection) -> list[str]:
    """The lanes of running runs, as the limiter knows them."""
    lanes = connection.execute(SQL["lanes_at_work"], {"most": None}).fetchall()
    return [row["lane_name"] for row in lanes]


def tickets_of_nobody(connection: Connection, tickets: Mapping[str, tuple[int, int]]) -> set[str]:
    """Of these tickets, each with its (job, dispatch_no), those under which nobody is at work any more."""
    jobs, dispatch_nos = [job for job, _ in tickets.values()], [number for _, number in tickets.values()]
    parameters = {"tickets": list(tickets), "jobs": jobs, "dispatch_nos": dispatch_nos}
    return {row["ticket"] for row in connection.execute(SQL["tickets_of_nobody"], parameters).fetchall()}


def unqueue_lost(connection: Connection, *, before: datetime) -> Sequence[int]:
    """queued -> pending for what was dispatched before that time: its messages are gone."""
    return [row["id"] for row in connection.execute(SQL["unqueue_lost"], {"before": before}).fetchall()]


def database_time(connection: Connection) -> datetime:
    """The database's clock."""
    row = connection.execute("SELECT clock_timestamp() AS now").fetchone()
    assert row is not None
    now: datetime = row["now"]
    return now
