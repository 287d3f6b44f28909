"""A ledger file into the database, as a finished run of its own name: whole or not at all.

Every row is checked by itself (`db.ledger_reader`), and goes with those that it belongs to straight into the tables
(`db.ledger_loading`). A file in another order is sorted first (`db.ledger_sorting`). Exporting the run again gives the
same rows.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl
import psycopg

from db.background import Background
from db.connection import Connection
from db.errors import LedgerInvalid
from db.ledger_check import LedgerCheck
from db.ledger_files import LedgerFile
from db.ledger_frames import frames
from db.ledger_groups import Tangled
from db.ledger_loading import Loaded, load
from db.ledger_sorting import keep_rows, sorted_rows
from db.queries import SQL
from db.runs import RUN_ID_PATTERN


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import made."""

    run_id: str
    rows: int
    trials: int


def import_ledger(
    connection: Connection,
    file: LedgerFile,
    *,
    run_id: str | None = None,
    on_wait: Callable[[], None] = lambda: None,
) -> Imported:
    """Read the file as a new run, named `run_id` or as its rows say.

    One import is made at a time; `on_wait` is called where another one has to end first.

    Raises:
        LedgerInvalid: a row that is none, rows that contradict each other, or a name that is taken. Nothing of the
            file is in the database then.
    """
    check = LedgerCheck(file)
    tables = check.frames()
    first = next(tables, None)
    if check.run_id is None or first is None:
        raise LedgerInvalid(f"{file.path}: holds no row. Export a run that has made calls.")
    name = check.run_id if run_id is None else run_id
    _refuse_name(connection, name)
    with connection.transaction():
        _hasten(connection)
        _wait_for_others(connection, on_wait)
        run = _add_run(connection, name, check.source_platform)
        loaded = _load(connection, file, itertools.chain([first], tables), run)
        _add_verdicts(connection, file, run)
        connection.execute(SQL["complete_run"], {"run": run})
        # A tenth of the usual sample is enough to plan by, until autovacuum takes the whole.
        connection.execute("SET LOCAL default_statistics_target = 10")
        connection.execute(SQL["analyze_import"])
    return Imported(run_id=name, rows=loaded.rows, trials=loaded.trials)


def _wait_for_others(connection: Connection, on_wait: Callable[[], None]) -> None:
    found = connection.execute(SQL["try_import_alone"]).fetchone()
    if not (found and found["alone"]):
        on_wait()
        connection.execute(SQL["import_alone"])


def _hasten(connection: Connection) -> None:
    """Memory for the sorts, and for a superuser, such as the owner of the embedded servers, no check of foreign keys:
    every key is one that this import has made, and checking millions of them takes half the time.
    """
    connection.execute("SET LOCAL work_mem = '128MB'")
    if connection.info.parameter_status("is_superuser") == "on":
        connection.execute("SET LOCAL session_replication_role = replica")


def _refuse_name(connection: Connection, name: str) -> None:
    if not re.fullmatch(RUN_ID_PATTERN, name):
        raise LedgerInvalid(
            f"run id {name!r}: letters, digits, '.', '_' and '-' only, at most 100. Choose one with --run-id."
        )
    if connection.execute(SQL["find_run"], {"run_id": name}).fetchone():
        raise _taken(name)


def _taken(name: str) -> LedgerInvalid:
    return LedgerInvalid(f"A run named {name!r} is there already. Import under another name with --run-id.")


def _add_run(connection: Connection, name: str, source_platform: str) -> int:
    found = connection.execute(
        SQL["import_run"], {"run_id": name, "source_platform": source_platform}
    ).fetchone()
    if found is None:
        raise _taken(name)
    return int(found["id"])


def _load(connection: Connection, file: LedgerFile, tables: Iterator[pl.DataFrame], run: int) -> Loaded:
    """Straight into the tables; where that is not possible, by way of the sorter, which reads the file again."""
    try:
        with connection.transaction(), Background() as postgres:
            connection.execute(SQL["judged_trials"])
            return load(connection, postgres, tables, run=run, strategies={}, place=file.place)
    except (Tangled, psycopg.errors.UniqueViolation):
        if not file.path.is_file():
            raise LedgerInvalid(
                f"{file.path}: its rows are not in the order of an export, and it can be read only once. "
                "Save it as a file first."
            ) from None
    keep_rows(connection, file, LedgerCheck(file).rows())
    connection.execute(SQL["judged_trials"])
    made = connection.execute(SQL["import_strategies"], {"run": run}).fetchall()
    strategies = {row["name"]: row["id"] for row in made}
    try:
        with Background() as postgres:
            ordered = frames(sorted_rows(connection, postgres, file))
            return load(connection, postgres, ordered, run=run, strategies=strategies, place=file.place)
    except psycopg.errors.UniqueViolation:
        raise LedgerInvalid(
            f"{file.path}: two calls of judges differ in nothing but their try. Give one a round of its own."
        ) from None


def _add_verdicts(connection: Connection, file: LedgerFile, run: int) -> None:
    connection.execute(SQL["stage_verdicts"], {"run": run})
    stranger = connection.execute(SQL["unknown_opponent"]).fetchone()
    if stranger is not None:
        raise LedgerInvalid(
            f"{file.place(stranger['line'])}: opponent: a strategy without a row of this task and repeat. "
            "Import the whole ledger."
        )
    story = connection.execute(SQL["other_story"]).fetchone()
    if story is not None:
        where = f"in {file.short_place(story['other_line'])} " if story["other_line"] else ""
        raise LedgerInvalid(
            f"{file.place(story['line'])}: winner: the rows of {story['against']!r} {where}do not say the same of "
            "this verdict. Both trials of a verdict name the same winner."
        )
    connection.execute(SQL["import_verdicts"], {"run": run})
