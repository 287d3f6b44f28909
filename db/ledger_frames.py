"""Checked ledger rows as tables, some thousand at a time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl

from db.ledger_columns import plainly_right
from db.ledger_reader import NOT_PLAIN, CheckedRow, read_plain, usage_text
from db.ledger_row import COLUMNS, LedgerRow
from db.text import json_to_database

LINE = "line"
"""Where in its file a row stands."""

_BATCH_ROWS = 10_000
_BATCH_BYTES = 8_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_columns = attrgetter(*LedgerRow.model_fields)


def frames(rows: Iterable[CheckedRow]) -> Iterator[pl.DataFrame]:
    """Tables with the columns `COLUMNS` and `LINE`; one has 10,000 rows, or fewer that are long."""
    numbers: list[int] = []
    found: list[LedgerRow] = []
    size = 0
    for number, line, row in rows:
        numbers.append(number)
        found.append(row)
        size += len(line)
        if len(found) == _BATCH_ROWS or size > _BATCH_BYTES:
            yield _table(found).with_columns(pl.Series(LINE, numbers))
            numbers, found, size = [], [], 0
    if found:
        yield _table(found).with_columns(pl.Series(LINE, numbers))


def plain_frame(number: int, lines: Sequence[bytes]) -> pl.DataFrame | None:
    """The table of these lines, the first of which has this number; None unless all are plainly right."""
    try:
        rows = [read_plain(json_to_database(line)) for line in lines]
        for row in rows:
            row.usage = usage_text(row.usage)
    except NOT_PLAIN:
        return None
    return plain_table(number, _table(rows))


def plain_table(number: int, table: pl.DataFrame) -> pl.DataFrame | None:
    """The same of rows that stand in a table already."""
    if not plainly_right(table):
        return None
    return table.with_columns(pl.int_range(number, number + table.height).alias(LINE))


def _table(rows: list[LedgerRow]) -> pl.DataFrame:
    columns = zip(COLUMNS, zip(*map(_columns, rows), strict=True), strict=True)
    return pl.DataFrame([_series(name, values) for name, values in columns])


def _series(name: str, values: tuple[Any, ...]) -> pl.Series:
    if name in ("winner", "opponent"):
        return pl.Series(name, [_names(said) for said in values], dtype=pl.String)
    if isinstance(COLUMNS[name], pl.Datetime):
        # Tens of times faster than polars takes them.
        since = [None if time is None else (time - _EPOCH) // _MICROSECOND for time in values]
        return pl.Series(name, since, dtype=pl.Int64).cast(COLUMNS[name])
    return pl.Series(name, values, dtype=COLUMNS[name])


def _names(said: object) -> str | None:
    return None if said is None else msgspec.json.encode(said).decode()
