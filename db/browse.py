"""Reading runs for people to look into: a page at a time, on connections that can change nothing.

Sizes: `most` rows at the most are read of anything; texts are cut in the database, so that a long one is never sent.
Text that a model wrote comes as it was (`db.text` undone): it may hold NUL, lone surrogates and anything else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg_pool import ConnectionPool

from db.connection import CONNECT_OPTIONS, Connection
from db.queries import SQL
from db.reader import Row
from db.tables import TRIAL_STATES
from db.text import to_database, unescape_json

AUDITOR = "paretoken_auditor"
MOST_JOBS = 200
"""Jobs of one trial that are read, with those of its judgings."""
MOST_CALLS = 2_000
"""Calls of these jobs that are read."""
_FEW = 10
_READ_ONLY = "SET default_transaction_read_only = on"
_WAIT_S = 5.0
_RECONNECT_S = 4.0


def reading_pool(database_url: str, *, size: int, statement_s: float) -> ConnectionPool[Connection]:
    """A closed pool of autocommit connections that read only, as the auditor where that role can be taken.

    A statement that takes longer than `statement_s` is ended: `psycopg.errors.QueryCanceled`.
    """

    def configure(connection: Connection) -> None:
        connection.execute(_READ_ONLY)
        connection.execute(f"SET statement_timeout = {round(statement_s * 1000)}")
        become_auditor(connection)

    return ConnectionPool(
        database_url,
        min_size=1,
        max_size=size,
        open=False,
        timeout=_WAIT_S,
        reconnect_timeout=_RECONNECT_S,
        configure=configure,
        check=ConnectionPool.check_connection,
        # Each page has its own filters: a plan for all of them would be a plan for none.
        kwargs={"autocommit": True, "application_name": "paretoken-serve", "prepare_threshold": None}
        | CONNECT_OPTIONS,
        connection_class=psycopg.Connection[dict[str, Any]],
    )


def become_auditor(connection: Connection) -> bool:
    """Take the role that can read everything and change nothing; False where there is none, or it may not be taken."""
    try:
        connection.execute(f"SET ROLE {AUDITOR}")
    except (psycopg.errors.InvalidParameterValue, psycopg.errors.InsufficientPrivilege):
        return False
    row = connection.execute("SELECT has_table_privilege('run', 'SELECT') AS readable").fetchone()
    if row is None or not row["readable"]:
        # The role is the whole server's: another database may have made it.
        connection.execute("RESET ROLE")
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which trials of a run; None: all."""

    state: str | None = None
    strategy: str | None = None
    category: str | None = None
    task: str | None = None
    """What the task's id begins with."""

    def parameters(self) -> dict[str, Any]:
        texts = {name: value and to_database(value) for name, value in vars(self).items() if name != "state"}
        return texts | {"states": [self.state] if self.state else list(TRIAL_STATES)}


def runs(connection: Connection, *, before: int | None, most: int) -> list[Row]:
    """The newest runs older than the one with this row id."""
    return _rows(connection, "browse_runs", before=before, most=most)


def strategies(connection: Connection, *, run: int) -> list[Row]:
    """The run's strategies with how many of their trials have ended, were judged, and succeeded."""
    return _rows(connection, "browse_strategies", run=run)


def choices(connection: Connection, *, run: int) -> Row:
    """`strategies` and `categories` of the run, by name."""
    return _rows(connection, "browse_choices", run=run)[0]


def trials(connection: Connection, *, run: int, filters: Filters, after: int, most: int) -> list[Row]:
    """The first trials behind the one with this row id; each with what it has `spent`."""
    found = _rows(connection, "browse_trials", run=run, after=after, most=most, **filters.parameters())
    _add_spent(connection, found)
    return found


def _add_spent(connection: Connection, trials: Sequence[Row]) -> None:
    """`calls, tokens, cost_usd, unknown_usage, unknown_cost`; a sum is None where nothing of it is known."""
    rows = _rows(connection, "browse_spent", trials=[trial["id"] for trial in trials])
    spent = {row["trial"]: row for row in rows}
    for trial in trials:
        trial["spent"] = spent[trial["id"]]


@dataclass(frozen=True, kw_only=True)
class TrialView:
    """One trial with all that belongs to it."""

    trial: Row
    """With what it has `spent`, of all its calls."""
    siblings: Sequence[Row]
    """The same task and repeat with every strategy, this one too."""
    jobs: Sequence[Row]
    """Its jobs, then those of its judgings; each with its `calls`."""
    judgings: Sequence[Row]
    verdicts: Sequence[Row]
    files: Sequence[Row]
    cut: bool
    """Whether there are more jobs or calls than were read."""


def trial(connection: Connection, *, run_id: str, trial: int, cut: int, cut_of_many: int) -> TrialView | None:
    """A trial of the run, or None.

    Args:
        cut: characters of a text that are read.
        cut_of_many: the same where the trial has more than a few jobs.
    """
    found = _rows(connection, "browse_trial", run_id=run_id, trial=trial, cut=cut)
    if not found:
        return None
    _add_spent(connection, found)
    [row] = found
    at = {"trial": trial, "run": row["run"], "task": row["task"], "repeat": row["repeat"], "most": MOST_JOBS}
    judgings = _rows(connection, "browse_judgings", **at)
    about = [judging["id"] for judging in judgings]
    jobs = _rows(connection, "browse_jobs", **at | {"judgings": about, "most": MOST_JOBS + 1})
    jobs, cut_jobs = jobs[:MOST_JOBS], len(jobs) > MOST_JOBS
    cut_calls = _add_calls(connection, jobs, cut=cut if len(jobs) <= _FEW else cut_of_many)
    return TrialView(
        trial=row,
        siblings=_rows(connection, "browse_siblings", **at),
        jobs=jobs,
        judgings=judgings,
        verdicts=_rows(connection, "browse_verdicts", **at),
        files=_rows(connection, "browse_trial_files", **at),
        cut=cut_jobs or cut_calls,
    )


def _add_calls(connection: Connection, jobs: Sequence[Row], *, cut: int) -> bool:
    """Give each job its `calls`; True where there are more than were read."""
    by_job: dict[int, list[Row]] = {job["id"]: [] for job in jobs}
    calls = _rows(connection, "browse_calls", jobs=list(by_job), cut=cut, most=MOST_CALLS + 1)
    for call in calls[:MOST_CALLS]:
        by_job[call["job"]].append(call)
    for job in jobs:
        job["calls"] = by_job[job["id"]]
    return len(calls) > MOST_CALLS


Text = Literal["answer", "output"]


def text(connection: Connection, what: Text, **where: Any) -> str | None:
    """A whole answer (by `run_id, trial`) or output (by `run_id, job, attempt, turn`); None where there is none."""
    found = _rows(connection, f"browse_{what}", **where)
    return found[0]["text"] if found else None


def job(connection: Connection, *, run_id: str, job: int) -> Row | None:
    """A job with its request; None where the run has no such job."""
    found = _rows(connection, "browse_job", run_id=run_id, job=job)
    return found[0] if found else None


def question(connection: Connection, *, judging: int) -> Row | None:
    """What a judge was asked about: `judge, repeat, answers`, the run's `experiment` and the task's own."""
    found = _rows(connection, "browse_question", judging=judging)
    return found[0] if found else None


def task_files(connection: Connection, names: Mapping[str, str]) -> dict[str, str]:
    """The texts of a task's files by their names, from their hashes."""
    rows = connection.execute(SQL["read_files"], {"hashes": list(names.values())})
    contents = {row["sha256"]: row["content"].decode("utf-8", "replace") for row in rows}
    return {name: contents[sha256] for name, sha256 in names.items()}


def trial_file(connection: Connection, **where: Any) -> bytes | None:
    """What an agent wrote in a file, by `run_id, trial, try, name`; None where there is none."""
    found = _rows(connection, "browse_trial_file", **where)
    return found[0]["content"] if found else None


def search(
    connection: Connection, *, run: int, wanted: str, state: str | None, after: int, window: int, most: int
) -> Row:
    """Look for a text, upper and lower case alike, in the outputs of the next `window` trials.

    Gives `searched_trials, searched_outputs, last_trial` (row id, None where no trial is left) and `matches`,
    at most `most`: `trial, job, attempt, status, task_id, strategy, repeat, before, match, after`.
    """
    states = Filters(state=state).parameters()["states"]
    at = {"run": run, "text": to_database(wanted), "states": states, "after": after, "window": window}
    return _rows(connection, "browse_search", most=most, **at)[0]


def _rows(connection: Connection, query: str, /, **at: Any) -> list[Row]:
    # By position alone: a parameter of the query may have any name.
    rows = connection.execute(SQL[query], at).fetchall()
    return [{column: unescape_json(value) for column, value in row.items()} for row in rows]
