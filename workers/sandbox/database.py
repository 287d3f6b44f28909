"""A SQLite database in memory that holds CSVs, and what SQL of others may do there."""

import csv
import math
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Self

from workers.sandbox.errors import Refused

SQL_MEMORY_BYTES = 1 << 26
CELL_BYTES = 1_000_000
MAX_ROWS = 1000
MAX_RESULT_BYTES = 1_000_000
MAX_RESULTS = 100

READ_ONLY = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
ANYTHING_IN_MEMORY = READ_ONLY | {
    sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_TEMP_INDEX,
    sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_TEMP_TABLE, sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_DROP_TEMP_VIEW, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_DROP_TEMP_INDEX,
    sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_REINDEX, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT,
}  # fmt: skip
_NAMES = {
    sqlite3.SQLITE_ATTACH: "ATTACH or VACUUM",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_CREATE_VTABLE: "CREATE VIRTUAL TABLE",
    sqlite3.SQLITE_CREATE_TRIGGER: "CREATE TRIGGER",
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: "CREATE TRIGGER",
    sqlite3.SQLITE_TRANSACTION: "a transaction",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
}
_FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}

_INTEGER = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")
_REAL = re.compile(r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")


class Database:
    """Load tables first, then `guard`, then run what others wrote."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._connection.execute(f"PRAGMA hard_heap_limit = {SQL_MEMORY_BYTES}")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, CELL_BYTES)
        self._forbidden: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def load(self, table: str, csv_text: str, nulls: Sequence[str]) -> None:
        """Make a table of a CSV, with columns of whole numbers, numbers or text."""
        header, rows = read_csv(csv_text)
        columns = [
            typed([None if cell in nulls else cell for cell in column])
            for column in (zip(*rows, strict=True) if rows else [()] * len(header))
        ]
        named = ", ".join(f"{_quoted(name)} {kind}" for name, (kind, _) in zip(header, columns, strict=True))
        self._connection.execute(f"CREATE TABLE {_quoted(table)} ({named})")
        places = ", ".join("?" * len(header))
        values = zip(*(cells for _, cells in columns), strict=True)
        self._connection.executemany(f"INSERT INTO {_quoted(table)} VALUES ({places})", values)  # noqa: S608  quoted

    def guard(self, allowed: frozenset[int] = ANYTHING_IN_MEMORY) -> None:
        """From now on allow these actions and no others."""

        def authorize(action: int, first: str | None, second: str | None, *_: Any) -> int:
            if action == sqlite3.SQLITE_FUNCTION and second in _FORBIDDEN_FUNCTIONS:
                self._forbidden.append(f"{second}()")
            elif action not in allowed:
                self._forbidden.append(_NAMES.get(action) or _default_name(action))
            else:
                return sqlite3.SQLITE_OK
            return sqlite3.SQLITE_DENY

        self._connection.set_authorizer(authorize)

    def results(self, script: str) -> Iterator[dict[str, Any] | None]:
        """Run the statements one by one; columns and rows of each that gives rows."""
        found = 0
        for number, statement in enumerate(_statements(script), start=1):
            try:
                cursor = self._execute(statement)
                rows = list(_bounded(cursor))
            except (_Failed, MemoryError, sqlite3.Error, ValueError) as error:
                raise Refused(f"statement {number} failed: {self._why(error)}") from None
            found += cursor.description is not None
            if found > MAX_RESULTS:
                raise Refused(f"the SQL gives more than {MAX_RESULTS} results")
            columns = [column[0] for column in cursor.description or ()]
            yield {"columns": columns, "rows": rows} if columns else None

    def first_rows(self, statement: str, *, most_rows: int, most_chars: int) -> dict[str, Any]:
        """Columns and the first rows of one statement, up to a number of rows and characters."""
        rows: list[list[Any]] = []
        chars = 0
        more = False
        try:
            cursor = self._execute(statement)
            for row in cursor:
                cells = [_cell(cell) for cell in row]
                chars += sum(len(str(cell)) + 1 for cell in cells)
                more = len(rows) == most_rows or chars > most_chars
                if more:
                    break
                rows.append(cells)
        except (_Failed, MemoryError, sqlite3.Error, ValueError) as error:
            raise Refused(self._why(error)) from None
        if cursor.description is None:
            raise Refused("it gives no rows; write one SELECT")
        return {"columns": [column[0] for column in cursor.description], "rows": rows, "more": more}

    def _execute(self, statement: str) -> sqlite3.Cursor:
        if "\0" in statement:
            raise Refused("the SQL holds a NUL character")
        try:
            return self._connection.execute(statement)
        except (sqlite3.Warning, OverflowError) as error:
            raise _Failed(str(error)) from None

    def _why(self, error: Exception) -> str:
        if isinstance(error, MemoryError):
            return "it needs too much memory"
        return f"{self._forbidden[0]} is not allowed" if self._forbidden else str(error)


class _Failed(Exception):
    """A statement could not be run; the message says why."""


def read_csv(text: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows. Raises `Refused` for what is no table."""
    header, rows = read_rows(text)
    if uneven := uneven_rows(header, rows):
        raise Refused(f"row {uneven[0]} of the CSV has not as many fields as its header")
    return header, rows


def read_rows(text: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows, which may have any number of fields. Raises `Refused` for what is no CSV."""
    try:
        header, *rows = csv.reader(text.splitlines())
    except (ValueError, csv.Error) as error:
        raise Refused(f"no CSV with a header ({error})") from None
    return header, rows


def uneven_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Numbers, from 1, of the rows that have not as many fields as the header."""
    return [number for number, row in enumerate(rows, start=1) if len(row) != len(header)]


def typed(cells: Sequence[str | None]) -> tuple[str, Sequence[Any]]:
    """A column's SQL type, and its cells converted to it."""
    present = [cell for cell in cells if cell is not None]
    for kind, pattern, convert in (("INTEGER", _INTEGER, int), ("REAL", _REAL, float)):
        if present and all(pattern.fullmatch(cell) for cell in present):
            return kind, [None if cell is None else convert(cell) for cell in cells]
    return "TEXT", cells


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _default_name(action: int) -> str:
    return "anything but reading" if action in ANYTHING_IN_MEMORY else f"action {action}"


def _bounded(cursor: sqlite3.Cursor) -> Iterator[list[Any]]:
    size = 0
    for number, row in enumerate(cursor, start=1):
        size += sum(len(cell) for cell in row if isinstance(cell, str | bytes))
        if number > MAX_ROWS or size > MAX_RESULT_BYTES:
            raise ValueError(f"it gives more than {MAX_ROWS} rows or {MAX_RESULT_BYTES} bytes")
        yield [_cell(cell) for cell in row]


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _statements(script: str) -> Iterator[str]:
    if "\0" in script:
        raise Refused("the SQL holds a NUL character")
    statement = ""
    for part in re.split("(?<=;)", script):
        statement += part
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
