"""How far a run is: counts, tokens, cost, what waits and why. Read from Postgres alone.

A look is cheap however large the run is: sums come from the tally, counts from indexes, and jobs that have ended are
not counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from db.queries import SQL
from db.reader import Reader, Row
from db.runs import calls_in_flight, find_run

OPEN_STATES = ("pending", "running")


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Jobs that are not sent now, and until when."""

    why: str
    """`hold`: the gateway asked everybody to wait; `retry`: jobs that were tried wait for their next try; `capacity`:
    others wait for the limiter, or for a worker that has the key."""
    model: str
    until: datetime
    """Of several jobs the earliest."""
    reason: str | None
    """None with `capacity`."""
    jobs: int


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A run at one moment."""

    run: int
    run_id: str
    state: str
    reason: str | None
    simulated: bool
    created_at: datetime
    finished_at: datetime | None
    trials: Mapping[str, int]
    """State -> number."""
    jobs: Mapping[str, int]
    """State -> number, of the jobs that have not ended."""
    judgings: Mapping[str, Mapping[str, int]]
    """Judge -> state -> number; empty until they are planned, when the trials are over."""
    judging_bounds: Sequence[Mapping[str, Any]]
    """Per judge what was planned: `judge, judgings, calls, most_tokens, most_cost_usd` (None without a price)."""
    ok_calls: int
    error_calls: int
    unknown_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    """Of the calls whose cost is known."""
    reserved_tokens: int
    """Upper bound of what is out, and of calls whose usage is unknown; a budget counts it as spent."""
    reserved_cost_usd: float
    """The same in USD, of models with a price."""
    limits: Mapping[str, int | None]
    """`requests_per_minute`, `tokens_per_minute`, `concurrency`; None or missing: no limit."""
    budget: Mapping[str, float | None]
    """`run_tokens`, `run_cost_usd` and the same per trial; None or missing: no budget."""
    unpriced_models: Sequence[str]
    unknown_usage_calls: int
    errors: Mapping[str, int]
    """Class of error -> calls."""
    waits: Sequence[Wait]
    workers: int
    in_flight: int
    """As the workers last told, of all their runs; so is `waiting`."""
    waiting: int
    awaited: int
    """Calls in flight that a run which goes on no more still waits for."""

    @property
    def total_trials(self) -> int:
        return sum(self.trials.values())

    @property
    def open_trials(self) -> int:
        return sum(self.trials.get(state, 0) for state in OPEN_STATES)

    @property
    def calls(self) -> int:
        """Calls that have an outcome."""
        return self.ok_calls + self.error_calls + self.unknown_calls

    @property
    def tokens(self) -> int:
        """Tokens that the gateway has reported."""
        return self.input_tokens + self.output_tokens

    @property
    def at_rest(self) -> bool:
        """Whether it goes on no more, and no call is awaited."""
        return self.state != "running" and not self.awaited

    @property
    def open_jobs(self) -> int:
        return sum(self.jobs.values())


def progress(connection: Reader, run_id: str) -> Progress:
    """Where the run stands.

    Raises:
        UnknownRun: no run has this name; the message lists the newest ones.
    """
    row = find_run(connection, run_id)
    at = {"run": row["id"]}
    # Before the counts: what settles meanwhile is among them.
    stopped = row["state"] in ("paused", "cancelled")
    awaited = calls_in_flight(connection, run=row["id"]).awaited if stopped else 0
    tally = connection.execute(SQL["tally_sums"], at).fetchone()
    assert tally is not None
    open_jobs = connection.execute(SQL["open_job_counts"], at).fetchall()
    workers = connection.execute(SQL["live_workers"]).fetchall()
    return Progress(
        run=row["id"],
        run_id=run_id,
        state=row["state"],
        reason=row["reason"],
        simulated=row["simulated"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        trials={r["state"]: r["trials"] for r in connection.execute(SQL["trial_counts"], at)},
        jobs={r["state"]: r["jobs"] for r in open_jobs if r["jobs"]},
        judgings=_judgings(connection.execute(SQL["judging_counts"], at).fetchall()),
        judging_bounds=row["judgings"] or [],
        ok_calls=tally["ok_calls"],
        error_calls=tally["error_calls"],
        unknown_calls=tally["unknown_calls"],
        input_tokens=tally["input_tokens"],
        output_tokens=tally["output_tokens"],
        cost_usd=tally["cost_usd"],
        reserved_tokens=tally["held_tokens"] + sum(r["reserve_tokens"] or 0 for r in open_jobs),
        reserved_cost_usd=tally["held_cost_usd"] + sum(r["reserve_cost_usd"] or 0.0 for r in open_jobs),
        limits=row["experiment"].get("limits", {}),
        budget=row["experiment"].get("budget", {}),
        unknown_usage_calls=tally["unknown_usage_calls"],
        unpriced_models=[r["model"] for r in connection.execute(SQL["unpriced_models"], at)],
        errors=(
            {r["error"]: r["calls"] for r in connection.execute(SQL["error_counts"], at)}
            if tally["error_calls"] or tally["unknown_calls"]
            else {}
        ),
        waits=[Wait(**r) for r in connection.execute(SQL["waits"], at)],
        workers=len(workers),
        in_flight=sum(r["in_flight"] for r in workers),
        waiting=sum(r["waiting"] for r in workers),
        awaited=awaited,
    )


def _judgings(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["judge"], {})[row["state"]] = row["judgings"]
    return found
