"""The sandbox's actions on tables: a script for a check, one query or a description for an agent."""

from collections.abc import Sequence
from typing import Any

from workers.sandbox.database import READ_ONLY, Database, read_rows, typed, uneven_rows
from workers.sandbox.errors import Refused
from workers.sandbox.limits import limit_cpu

COMMON_VALUES = 5
UNEVEN_ROWS = 20


def sql(
    *, csv_text: str, table: str, nulls: Sequence[str], script: str, query: str, result: int, cpu_s: int
) -> dict[str, Any]:
    """Columns and rows of a result of `script` (from 1, -1 is the last), or of `query` run after it.

    The script finds the CSV in `table`, with columns of whole numbers, numbers or text, and `nulls` as NULL.
    """
    with Database() as database:
        database.load(table, csv_text, nulls)
        limit_cpu(cpu_s)  # loading is no fault of the answer
        database.guard()
        results = [found for found in database.results(script) if found]
        if query:
            results = [found for found in database.results(query) if found]
    if not results:
        raise Refused("the SQL has no statement that gives rows")
    if result > len(results):
        raise Refused(f"result {result} is asked for, the SQL gives {len(results)}")
    return results[-1 if result < 0 else result - 1]


def query(
    *,
    tables: dict[str, str],
    nulls: Sequence[str],
    statement: str,
    most_rows: int,
    most_chars: int,
    cpu_s: int,
) -> dict[str, Any]:
    """Columns and the first rows of one SELECT over the tables, and whether there are `more`."""
    with Database() as database:
        for name, csv_text in tables.items():
            database.load(name, csv_text, nulls)
        limit_cpu(cpu_s)
        database.guard(READ_ONLY)
        return database.first_rows(statement, most_rows=most_rows, most_chars=most_chars)


def describe(*, csv_text: str, nulls: Sequence[str]) -> dict[str, Any]:
    """Number of rows, and per column its name, type, nulls, distinct values and range or most common values.

    `uneven` rows, which have not as many fields as the header, are named and count in no column.
    """
    header, rows = read_rows(csv_text)
    uneven = uneven_rows(header, rows)
    even = [row for row in rows if len(row) == len(header)]
    columns = zip(*even, strict=True) if even else [()] * len(header)
    return {
        "rows": len(rows),
        "uneven": uneven[:UNEVEN_ROWS],
        "columns": [_column(name, cells, nulls) for name, cells in zip(header, columns, strict=True)],
    }


def _column(name: str, cells: Sequence[str], nulls: Sequence[str]) -> dict[str, Any]:
    kind, values = typed([None if cell in nulls else cell for cell in cells])
    present = [value for value in values if value is not None]
    column = {
        "name": name,
        "type": kind.lower(),
        "nulls": len(values) - len(present),
        "distinct": len(set(present)),
    }
    if kind != "TEXT" and present:
        return column | {
            "min": min(present),
            "max": max(present),
            "mean": round(sum(present) / len(present), 6),
        }
    counts: dict[str, int] = {}
    for value in present:
        counts[value] = counts.get(value, 0) + 1
    common = sorted(counts, key=lambda value: -counts[value])[:COMMON_VALUES]
    return column | {"most_common": {value[:100]: counts[value] for value in common}}
