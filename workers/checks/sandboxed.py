"""The program of the sandbox: one JSON request a line in, one JSON reply a line out.

It is started by its path and imports nothing of this distribution, so that it is small and quick to start.
A reply is `{"result": …}` or `{"refused": "why"}`; past a limit of time the process ends without one.
"""

import csv
import json
import math
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

MEMORY_BYTES = 1 << 30
SQL_MEMORY_BYTES = 1 << 26
CELL_BYTES = 1_000_000
MAX_ROWS = 1000
MAX_RESULT_BYTES = 1_000_000
MAX_RESULTS = 100
MAX_FAULTS = 5
FAULT_CHARS = 300

# What an answer's SQL may do, all of it inside one database in memory.
_ALLOWED = {
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_TEMP_INDEX,
    sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_TEMP_TABLE, sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_DROP_TEMP_VIEW, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_DROP_TEMP_INDEX,
    sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_REINDEX, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT,
}  # fmt: skip
_FORBIDDEN_NAMES = {
    sqlite3.SQLITE_ATTACH: "ATTACH or VACUUM",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_CREATE_VTABLE: "CREATE VIRTUAL TABLE",
    sqlite3.SQLITE_CREATE_TRIGGER: "CREATE TRIGGER",
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: "CREATE TRIGGER",
}
_FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}

_INTEGER = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")
_REAL = re.compile(r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")


class Refused(Exception):
    """The answer cannot be looked at; the message says why."""


def regex(pattern: str, text: str, full: bool) -> str | None:
    """The text that matched, or `None`."""
    found = re.fullmatch(pattern, text) if full else re.search(pattern, text)
    return found[0] if found else None


def json_schema(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with the value, the first few faults."""
    import jsonschema  # late: only this action needs it
    from referencing import Registry

    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    # The empty registry fetches nothing, from nowhere.
    faults = islice(validator(schema, registry=Registry()).iter_errors(value), MAX_FAULTS)
    return [f"{fault.json_path}: {fault.message}"[:FAULT_CHARS] for fault in faults]


def sql(
    *, csv_text: str, table: str, nulls: Sequence[str], script: str, query: str, result: int, cpu_s: int
) -> dict[str, Any]:
    """Columns and rows of a result of `script` (from 1, -1 is the last), or of `query` run after it.

    The script finds the CSV in `table`, with columns of whole numbers, numbers or text, and `nulls` as NULL.
    """
    if "\0" in script:
        raise Refused("the SQL holds a NUL character")
    connection = _database()
    _load(connection, csv_text, table, nulls)
    limit_cpu(cpu_s)  # loading is no fault of the answer
    forbidden = _guard(connection)
    try:
        results = [found for found in _results(connection, script, forbidden) if found]
        if query:
            results = [found for found in _results(connection, query, forbidden) if found]
    finally:
        connection.close()
    if not results:
        raise Refused("the SQL has no statement that gives rows")
    if result > len(results):
        raise Refused(f"result {result} is asked for, the SQL gives {len(results)}")
    return results[-1 if result < 0 else result - 1]


def _database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA hard_heap_limit = {SQL_MEMORY_BYTES}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, CELL_BYTES)
    return connection


def _load(connection: sqlite3.Connection, csv_text: str, table: str, nulls: Sequence[str]) -> None:
    header, *rows = csv.reader(csv_text.splitlines())
    if uneven := next((number for number, row in enumerate(rows, start=1) if len(row) != len(header)), None):
        raise Refused(f"row {uneven} of the task's CSV has not as many fields as its header")
    columns = [
        _typed([None if cell in nulls else cell for cell in column]) for column in zip(*rows, strict=True)
    ]
    named = ", ".join(f"{_quoted(name)} {kind}" for name, (kind, _) in zip(header, columns, strict=True))
    connection.execute(f"CREATE TABLE {_quoted(table)} ({named})")
    places = ", ".join("?" * len(header))
    values = zip(*(cells for _, cells in columns), strict=True)
    connection.executemany(f"INSERT INTO {_quoted(table)} VALUES ({places})", values)  # noqa: S608  quoted


def _typed(cells: Sequence[str | None]) -> tuple[str, Sequence[Any]]:
    """The column's SQL type, and its cells converted to it."""
    present = [cell for cell in cells if cell is not None]
    for kind, pattern, convert in (("INTEGER", _INTEGER, int), ("REAL", _REAL, float)):
        if present and all(pattern.fullmatch(cell) for cell in present):
            return kind, [None if cell is None else convert(cell) for cell in cells]
    return "TEXT", cells


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _guard(connection: sqlite3.Connection) -> list[str]:
    """Allow what is harmless; the list that comes back collects the names of what was not."""
    forbidden: list[str] = []

    def authorize(action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_FUNCTION and second in _FORBIDDEN_FUNCTIONS:
            forbidden.append(f"{second}()")
        elif action not in _ALLOWED:
            forbidden.append(_FORBIDDEN_NAMES.get(action, f"action {action}"))
        else:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    return forbidden


def _results(
    connection: sqlite3.Connection, script: str, forbidden: Sequence[str]
) -> Iterator[dict[str, Any] | None]:
    """Run the statements one by one; columns and rows of each that gives rows."""
    found = 0
    for number, statement in enumerate(_statements(script), start=1):
        try:
            cursor = connection.execute(statement)
            rows = list(_bounded(cursor))
        except MemoryError:
            raise Refused(f"statement {number} failed: it needs too much memory") from None
        except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError) as error:
            reason = f"{forbidden[0]} is not allowed" if forbidden else str(error)
            raise Refused(f"statement {number} failed: {reason}") from None
        found += cursor.description is not None
        if found > MAX_RESULTS:
            raise Refused(f"the SQL gives more than {MAX_RESULTS} results")
        columns = [column[0] for column in cursor.description or ()]
        yield {"columns": columns, "rows": rows} if columns else None


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
    statement = ""
    for part in re.split("(?<=;)", script):
        statement += part
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def limit_cpu(cpu_s: int) -> None:
    """End this process (SIGXCPU) after this much computing from now on."""
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + cpu_s)


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, hard))


ACTIONS: dict[str, Callable[..., Any]] = {"regex": regex, "json_schema": json_schema, "sql": sql}


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    limit_cpu(request["cpu_s"])
    try:
        return {"result": ACTIONS[request["action"]](**request["arguments"])}
    except Refused as refused:
        return {"refused": str(refused)}
    except MemoryError:
        return {"refused": "it needs too much memory"}
    except Exception as error:  # noqa: BLE001
        # Whatever a hostile answer wrings out of a library fails its check, and never the worker.
        return {"refused": f"{type(error).__name__}: {error}"[:FAULT_CHARS]}


def main() -> None:
    """Serve until the worker closes the pipe."""
    if sys.platform != "win32":
        _limit(resource.RLIMIT_AS, MEMORY_BYTES)
        _limit(resource.RLIMIT_FSIZE, 0)  # no file can be written
        _limit(resource.RLIMIT_CORE, 0)
    for line in sys.stdin:
        print(json.dumps(_reply(json.loads(line))), flush=True)  # noqa: T201  the reply


if sys.platform != "win32":
    import resource

if __name__ == "__main__":
    main()
