"""What a provider's bill should say of a run: its calls by day, model and key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import psycopg

from db.audit import snapshot
from db.connection import Connection
from db.errors import UnknownTimeZone
from db.queries import SQL
from db.runs import find_run

_MOST_NEIGHBOURS = 5


@dataclass(frozen=True, kw_only=True)
class Billable:
    """Calls of one day, model and key that count alike on a bill."""

    day: date
    model: str
    key_fingerprint: str
    what: str
    """`used`, `retry`, `unused` or `error` with usage; `unsaid`: may be billed, not all of its usage known;
    `failed`: answered without usage; never sent ones are none of these."""
    late: bool
    """Ended on a later day than it began."""
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced_calls: int
    bound_tokens: int
    bound_cost_usd: float | None
    largest_tokens: int
    """Of the call with the highest bound."""
    largest_cost_usd: float | None


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Other runs at work on the same days with a model in common, by name; `left_out` more are not looked at."""

    runs: Mapping[str, Sequence[Billable]]
    left_out: int = 0


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What bills are compared with."""

    run: Sequence[Billable]
    others: Callable[[], Neighbours]
    """Read when it is asked."""


def billable(connection: Connection, run_id: str, *, timezone: str) -> Ledger:
    """The calls of a run by day in this time zone.

    Raises:
        UnknownRun: there is none of that name.
        UnknownTimeZone: the database knows no such zone.
    """
    run = find_run(connection, run_id)["id"]
    own = _billable(connection, run, timezone)
    return Ledger(run=own, others=lambda: _neighbours(connection, run, own, timezone))


def _billable(connection: Connection, run: int, timezone: str) -> list[Billable]:
    try:
        with connection.transaction():
            snapshot(connection)
            rows = connection.execute(SQL["audit_billable"], {"run": run, "timezone": timezone}).fetchall()
    except psycopg.errors.InvalidParameterValue:
        raise UnknownTimeZone(
            f"The database knows no time zone {timezone!r}. Name one such as UTC or Europe/Berlin."
        ) from None
    return [Billable(**row) for row in rows]


def _neighbours(connection: Connection, run: int, own: Sequence[Billable], timezone: str) -> Neighbours:
    if not own:
        return Neighbours(runs={})
    days = [part.day for part in own]
    # A day more on either side: the zone is not looked at.
    margin = timedelta(days=2)
    at = {
        "run": run,
        "since": min(days) - margin,
        "until": max(days) + margin,
        "models": sorted({part.model for part in own}),
        "most": _MOST_NEIGHBOURS,
    }
    rows = connection.execute(SQL["audit_neighbours"], at).fetchall()
    return Neighbours(
        runs={row["run_id"]: _billable(connection, row["run"], timezone) for row in rows},
        left_out=rows[0]["found"] - len(rows) if rows else 0,
    )
