"""The audit of a run: its sums by several ways, its jobs and calls held against the rules of the ledger.

Everything is read in one snapshot, by set-based SQL: `db/sql/audit.sql`. `docs/audit.md` says what is checked and why.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isclose
from typing import Any

from analysis.wording import counted
from db.connection import Connection
from db.queries import SQL
from db.reader import Row
from db.runs import find_run

ALL_VIEWS_UP_TO = 200_000
"""Calls of a run up to which every view is summed; beyond it `audit_calls` alone, which the others are made of."""

_EXAMPLES = 10
_VIEWS = (
    "audit_rounds",
    "audit_task_strategy",
    "audit_strategy",
    "audit_models",
    "audit_errors",
    "audit_retries",
    "audit_status",
    "audit_daily",
    "audit_workers",
)
_SUMS = ("calls", "input_tokens", "output_tokens", "total_tokens", "cost_usd")
# Joins of a million rows each, which need not go to disk; just-in-time compilation would take longer than they do.
_SETTINGS = ("SET LOCAL work_mem = '128MB'", "SET LOCAL jit = off", "SET LOCAL TIME ZONE 'UTC'")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One rule: whether it holds, in a sentence, and the first cases in which it does not."""

    name: str
    passed: bool
    says: str
    examples: Sequence[Row] = ()


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found; token sums are of the calls that said them, beside the number of those that did not."""

    run_id: str
    state: str
    simulated: bool
    calls: int
    first_at: datetime | None
    last_at: datetime | None
    totals: Row
    checks: Sequence[Check]
    statuses: Sequence[Row]
    models: Sequence[Row]
    errors: Sequence[Row]
    retries: Sequence[Row]
    unpriced_models: Sequence[str]
    unknown_outcomes: Sequence[Row]
    """The first ones; `statuses` says how many there are."""
    duplicates: Sequence[Row]
    """Answers that were paid for and not used: the first ones."""
    tasks: Sequence[Row]
    """The most expensive ones."""

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


def audit_run(connection: Connection, run_id: str) -> Audit:
    """Audit a run as it stands.

    Raises:
        UnknownRun: there is none of that name.
    """
    with connection.transaction():
        snapshot(connection)
        run = find_run(connection, run_id)
        at = {"run": run["id"], "most": _EXAMPLES}
        direct = connection.execute(SQL["audit_direct"], at).fetchall()
        groups = connection.execute(SQL["audit_groups"], at).fetchall()
        jobs = connection.execute(SQL["audit_jobs"], at).fetchone()
        assert jobs is not None
        statuses = _folded(groups, "kind", "status")
        return Audit(
            run_id=run_id,
            state=run["state"],
            simulated=run["simulated"],
            calls=sum(row["calls"] for row in direct),
            first_at=min((row["first_at"] for row in direct), default=None),
            last_at=max((row["last_at"] for row in direct), default=None),
            totals=_totals(groups),
            checks=[
                *_jobs(connection, at, jobs, groups),
                _ended(run, direct),
                _tally(connection, at, direct),
                _views(connection, at, direct, groups),
            ],
            statuses=statuses,
            models=_folded(groups, "kind", "model"),
            errors=_folded(
                [row for row in groups if row["status"] in ("error", "unknown")],
                "status",
                "error",
                "http_status",
            ),
            retries=_folded([row for row in groups if row["purpose"] != "first"], "purpose", "retry_reason"),
            unpriced_models=[row["model"] for row in connection.execute(SQL["unpriced_models"], at)],
            unknown_outcomes=_list(connection, at, statuses, "unknown"),
            duplicates=_list(connection, at, [row for row in groups if row["part"] == "waste"], "ok"),
            tasks=connection.execute(SQL["audit_tasks"], at).fetchall(),
        )


def snapshot(connection: Connection) -> None:
    """Let the transaction see one state of the database, change nothing, and join large tables in memory."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    for setting in _SETTINGS:
        connection.execute(setting)


def _folded(groups: Iterable[Row], *names: str) -> list[Row]:
    """Sums over the groups that agree in these columns, the largest first."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in groups:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    folded = [dict(zip(names, key, strict=True)) | _totals(rows) for key, rows in found.items()]
    return sorted(folded, key=lambda row: (-row["calls"], *(str(row[name]) for name in names)))


def _totals(rows: Iterable[Row]) -> Row:
    rows = list(rows)
    counts = ("calls", "unknown_usage_calls", "unknown_cost_calls")
    return {name: sum(row[name] for row in rows) for name in counts} | {
        name: _sum(row[name] for row in rows) for name in _SUMS[1:]
    }


def _sum(values: Iterable[Any]) -> Any:
    """None where nothing is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _list(connection: Connection, at: Row, rows: Iterable[Row], status: str) -> list[Row]:
    """The first calls of this status without a used answer; the ledger is searched only where there are any."""
    if not any(row["status"] == status for row in rows):
        return []
    return connection.execute(SQL["audit_list_calls"], at | {"status": status}).fetchall()


def _jobs(connection: Connection, at: Row, jobs: Row, groups: Sequence[Row]) -> list[Check]:
    """Whether each job has the calls that it says.

    No two calls share a job, attempt and turn. So where every attempt lies within what its job says and their
    numbers agree in sum, they agree for each job; likewise the used calls. Only where they do not, the jobs are
    gone through one by one.
    """
    answers, attempts, strays = (
        sum(row[name] for row in groups) for name in ("answers", "attempts", "strays")
    )
    right = not jobs["misfits"] and answers == jobs["ok_jobs"] and not strays and attempts == jobs["attempts"]
    uneven = [] if right else connection.execute(SQL["audit_uneven_jobs"], at).fetchall()
    unanswered = [row["id"] for row in uneven if row["unanswered"]]
    broken = [row["id"] for row in uneven if not row["unanswered"]]
    return [
        Check(
            name="one used call",
            passed=not unanswered,
            says=f"{len(unanswered):,} jobs are ok without exactly one used call, or use one without being ok"
            if unanswered
            else f"each of {jobs['ok_jobs']:,} ok jobs has exactly one used call, and no other job has one",
            examples=_named(connection, unanswered),
        ),
        Check(
            name="contiguous attempts",
            passed=not broken,
            says=f"{len(broken):,} jobs do not have the attempts 1, 2, 3, … that they say"
            if broken
            else f"the attempts of each of {jobs['jobs']:,} jobs are 1, 2, 3, … without a gap",
            examples=_named(connection, broken),
        ),
        Check(
            name="contiguous rounds and samples",
            passed=not jobs["holes"],
            says=f"{jobs['holes']:,} trials or judgings have gaps in their rounds or samples"
            if jobs["holes"]
            else "rounds and samples of every trial and judging are 1, 2, 3, … without a gap",
            examples=_named(connection, jobs["hole_jobs"]),
        ),
    ]


def _named(connection: Connection, jobs: Sequence[int]) -> list[Row]:
    if not jobs:
        return []
    return connection.execute(SQL["audit_name_jobs"], {"jobs": list(jobs[:_EXAMPLES])}).fetchall()


def _ended(run: Row, direct: Sequence[Row]) -> Check:
    open_calls = sum(row["calls"] for row in direct if row["status"] == "started")
    over = run["state"] == "finished"
    says = f"{counted(open_calls, 'call')} in flight" + (" although the run is finished" if over else "")
    return Check(
        name="every call has ended",
        passed=not (over and open_calls),
        says=says if open_calls else "no call is in flight",
    )


def _tally(connection: Connection, at: Row, direct: Sequence[Row]) -> Check:
    """The sums that budgets go by, kept at each settlement, against the calls themselves."""
    kept = connection.execute(SQL["tally_sums"], at).fetchone()
    assert kept is not None
    settled = [row for row in direct if row["status"] != "started"]
    summed: Row = {
        f"{status}_calls": sum(row["calls"] for row in settled if row["status"] == status)
        for status in ("ok", "error", "unknown")
    }
    summed["unknown_usage_calls"] = sum(row["silent_calls"] for row in settled)
    for name in ("input_tokens", "output_tokens", "cost_usd", "held_tokens"):
        summed[name] = _sum(row[name] for row in settled) or 0
    apart = _apart("the tally", kept, summed)
    return Check(
        name="the tally equals the calls",
        passed=not apart,
        says=apart or f"it says the same {', '.join(summed)}",
    )


def _views(connection: Connection, at: Row, direct: Sequence[Row], groups: Sequence[Row]) -> Check:
    """The views' sums against those of the table; `audit_calls` by the groups that were read of it."""
    name, whole = "the views equal the calls", _totals_of(direct)
    said = {"audit_calls": (_totals_of(groups), whole)}
    left_out = ""
    if whole["calls"] > ALL_VIEWS_UP_TO:
        left_out = (
            f"; of more than {ALL_VIEWS_UP_TO:,} calls the other views, which are made of it, are not summed"
        )
    else:
        said |= _sums_of_views(connection, at, direct, whole)
    apart = [text for view, sums in said.items() if (text := _apart(view, *sums))]
    if apart:
        return Check(name=name, passed=False, says=". ".join(apart))
    return Check(name=name, passed=True, says=f"{', '.join(said)} say the same {', '.join(_SUMS)}{left_out}")


def _sums_of_views(
    connection: Connection, at: Row, direct: Sequence[Row], whole: Row
) -> dict[str, tuple[Row, Row]]:
    """View -> its sums, and those that it should have: some are about a part of the calls."""
    judges = connection.execute(SQL["audit_direct_judges"], at).fetchone()
    assert judges is not None
    of_trials = {name: (whole[name] or 0) - (judges[name] or 0) for name in _SUMS}
    parts = {
        "audit_errors": _totals_of(row for row in direct if row["status"] in ("error", "unknown")),
        "audit_retries": _totals_of(row for row in direct if row["retry"]),
        "audit_task_strategy": of_trials,
        "audit_strategy": of_trials,
    }
    said = {}
    for view in _VIEWS:
        found = connection.execute(SQL["audit_view_sums"].replace("%(view)s", view), at).fetchone()
        assert found is not None
        said[view] = (found, parts.get(view, whole))
    return said


def _totals_of(rows: Iterable[Row]) -> Row:
    rows = list(rows)
    return {"calls": sum(row["calls"] for row in rows)} | {
        name: _sum(row[name] for row in rows) for name in _SUMS[1:]
    }


def _apart(what: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Where the two say different things; empty where nowhere. USD but for the rounding of sums in another order."""
    apart = [
        f"{key} {found[key] or 0:,} instead of {value or 0:,}"
        for key, value in expected.items()
        if not isclose(found[key] or 0, value or 0, rel_tol=1e-9, abs_tol=1e-9 if key == "cost_usd" else 0)
    ]
    return f"{what} says {', '.join(apart)}" if apart else ""
