"""A ledger file into the database, as a finished run of its own name: whole or not at all.

Every row is checked by itself (`db.ledger_row`), then against the others; set-based SQL makes tasks, strategies,
trials, jobs and calls of them. Exporting the run again gives the same rows.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import psycopg

from db.connection import Connection
from db.errors import LedgerInvalid
from db.ledger_files import LedgerFile
from db.ledger_row import LedgerRow, check_row
from db.queries import SQL
from db.runs import RUN_ID_PATTERN
from db.text import json_to_database

_BATCH_BYTES = 1_000_000
# Characters that JSON cannot hold unescaped, so that the lines pass untouched.
_COPY = r"COPY staged_line FROM STDIN (FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02')"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import made."""

    run_id: str
    rows: int
    trials: int


class _Checked(NamedTuple):
    """A row that is right by itself, and its JSON as Postgres takes it."""

    number: int
    line: bytes
    row: LedgerRow


def import_ledger(connection: Connection, file: LedgerFile, *, run_id: str | None = None) -> Imported:
    """Read the file as a new run, named `run_id` or as its rows say.

    Raises:
        LedgerInvalid: a row that is none, rows that contradict each other, or a name that is taken. Nothing of the
            file is in the database then.
    """
    rows = _checked(file)
    first = next(rows, None)
    if first is None:
        raise LedgerInvalid(f"{file.path}: holds no row. Export a run that has made calls.")
    name = first.row.run_id if run_id is None else run_id
    _refuse_name(connection, name)
    try:
        with connection.transaction():
            _hasten(connection)
            connection.execute(SQL["stage_lines"])
            staged = _stage(connection, itertools.chain([first], rows))
            trials = _build(connection, file, name=name, source_platform=first.row.source_platform)
    except psycopg.DataError as error:
        raise LedgerInvalid(f"{file.path}: {_reason(error)}") from None
    connection.execute("ANALYZE task, trial, job, call")
    return Imported(run_id=name, rows=staged, trials=trials)


def _hasten(connection: Connection) -> None:
    """Memory for the sorts, and for a superuser, such as the owner of the embedded servers, no check of foreign keys:
    each statement takes its keys from the rows that they refer to, and checking millions of them takes half the time.
    """
    connection.execute("SET LOCAL work_mem = '128MB'")
    if connection.info.parameter_status("is_superuser") == "on":
        connection.execute("SET LOCAL session_replication_role = replica")


def _checked(file: LedgerFile) -> Iterator[_Checked]:
    first: _Checked | None = None
    for number, text in file.rows():
        checked = _Checked(number, line := json_to_database(text), check_row(line, file.place, number))
        first = first or checked
        _refuse_odd(file, first, checked)
        yield checked


def _refuse_odd(file: LedgerFile, first: _Checked, checked: _Checked) -> None:
    row, number = checked.row, checked.number
    for field in ("run_id", "source_platform"):
        ours, theirs = getattr(first.row, field), getattr(row, field)
        if ours != theirs:
            raise LedgerInvalid(
                f"{file.place(number)}: {field}: {theirs!r}, but {ours!r} in {file.short_place(first.number)}. "
                "Import one run a file."
            )
    if row.used and row.status != "ok":
        raise LedgerInvalid(
            f"{file.place(number)}: used: true, but status is {row.status!r}; only an answer is used."
        )


def _refuse_name(connection: Connection, name: str) -> None:
    if not re.fullmatch(RUN_ID_PATTERN, name):
        raise LedgerInvalid(
            f"run id {name!r}: letters, digits, '.', '_' and '-' only, at most 100. Choose one with --run-id."
        )
    if connection.execute(SQL["find_run"], {"run_id": name}).fetchone():
        raise _taken(name)


def _taken(name: str) -> LedgerInvalid:
    return LedgerInvalid(f"A run named {name!r} is there already. Import under another name with --run-id.")


def _stage(connection: Connection, rows: Iterable[_Checked]) -> int:
    staged = 0
    batch = bytearray()
    with connection.cursor().copy(_COPY) as copy:
        for number, line, _ in rows:
            # Between its tokens JSON may hold carriage returns, which COPY would take for ends of lines.
            batch += b"%d\x02%b\n" % (number, line.replace(b"\r", b" "))
            staged += 1
            if len(batch) >= _BATCH_BYTES:
                copy.write(bytes(batch))
                batch.clear()
        copy.write(bytes(batch))
    return staged


def _build(connection: Connection, file: LedgerFile, *, name: str, source_platform: str) -> int:
    connection.execute(SQL["stage_rows"])
    _refuse_pair(
        connection, file, "repeated_row", "the same task, strategy, repeat, try, round, sample, attempt, turn"
    )
    connection.execute(SQL["stage_trials"])
    connection.execute(SQL["stage_judgings"])
    connection.execute(SQL["stage_jobs"])
    connection.execute("ANALYZE staged, staged_trial, staged_job")
    _refuse_pair(connection, file, "answered_twice", "used is true for two attempts of one call")
    _refuse_pair(connection, file, "judged_twice", "winner and opponent of one trial are not the same")
    _refuse_strangers(connection, file)
    found = connection.execute(
        SQL["import_run"], {"run_id": name, "source_platform": source_platform}
    ).fetchone()
    if found is None:
        raise _taken(name)
    at = {"run": found["id"]}
    for statement in ("tasks", "strategies", "lanes"):
        connection.execute(SQL[f"import_{statement}"], at)
    # Without fresh statistics the join is planned as if the new run had one task.
    connection.execute("ANALYZE task, strategy")
    trials = connection.execute(SQL["import_trials"], at).rowcount
    for statement in ("judgings", "verdicts", "jobs", "calls", "tally"):
        connection.execute(SQL[f"import_{statement}"], at)
    return trials


def _refuse_pair(connection: Connection, file: LedgerFile, statement: str, what: str) -> None:
    pair = connection.execute(SQL[statement]).fetchone()
    if pair is not None:
        raise LedgerInvalid(
            f"{file.place(pair['second'])}: {what} as in {file.short_place(pair['first'])}. Remove one."
        )


def _refuse_strangers(connection: Connection, file: LedgerFile) -> None:
    connection.execute(SQL["stage_verdicts"])
    stranger = connection.execute(SQL["unknown_opponent"]).fetchone()
    if stranger is not None:
        raise LedgerInvalid(
            f"{file.place(stranger['line'])}: opponent: a strategy without a row of this task and repeat. "
            "Import the whole ledger."
        )


def _reason(error: psycopg.DataError) -> str:
    """What Postgres alone refuses: a number beyond its range in `usage`, a day that no calendar has."""
    found = re.search(r"COPY staged_line, line (\d+)", error.diag.context or "")
    row = f"row {found.group(1)}: " if found else ""
    return f"{row}{error.diag.message_primary}. {error.diag.message_detail or ''}".strip()
