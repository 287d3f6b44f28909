"""The ledger of a run as JSON Lines, CSV or Parquet: one row for every HTTP attempt that has an outcome.

All three hold the fields of `db.ledger_row`, ordered by task, strategy, repeat, try, round, sample, attempt, turn,
and are read again by `db.ledger_import`. Postgres writes them, in one snapshot: JSON as it is, and for the other two a
CSV of its own, some thousand rows at a time.

| format  | unknown    | NUL and lone surrogates                                        |
|---------|------------|----------------------------------------------------------------|
| JSON    | null       | `\\u0000`, `\\ud800`: as the gateway sent them                   |
| CSV     | empty cell | `\\u0000` as text (`analysis.safetext`); an empty text is `""`  |
| Parquet | null       | U+F8F0 and four hexadecimal digits (`db.text`)                 |
"""

from collections.abc import Callable, Iterator
from typing import BinaryIO

import polars as pl
from polars.io.plugins import register_io_source
from psycopg import sql

from analysis.safetext import csv_text
from db.connection import Connection
from db.ledger_row import COLUMNS, JSON_COLUMNS
from db.queries import SQL
from db.text import from_database, json_from_database

# Small enough for any machine, large enough that the work per chunk does not show.
_CHUNK_BYTES = 4_000_000
# Whoever reads the file holds one group of rows at a time.
_ROW_GROUP = 20_000
# In a cell that holds none of these `csv_text` changes nothing.
_UNSAFE_CELL = "^[=+\\-@\t\r\n＝＋－＠']|\\\\u|\uf8f0"

_TIMES = [name for name, kind in COLUMNS.items() if isinstance(kind, pl.Datetime)]
# What Postgres writes otherwise than polars reads it is read as text first.
_COPIED = {**COLUMNS, **dict.fromkeys(_TIMES, pl.String), "used": pl.String}


def export_lines(connection: Connection, *, run: int) -> Iterator[bytes]:
    """The run's ledger rows as JSON objects, one by one."""
    for chunk in json_chunks(connection, run=run):
        yield from chunk[:-1].split(b"\n")


def json_chunks(connection: Connection, *, run: int) -> Iterator[bytes]:
    """The run's ledger rows as JSON Lines, many whole lines at a time."""
    # A CSV copy whose quote and delimiter JSON cannot hold gives the lines untouched.
    options = r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'"
    for chunk in _chunks(connection, run, "row_to_json(row)", options):
        yield json_from_database(chunk)


def frames(connection: Connection, *, run: int) -> Iterator[pl.DataFrame]:
    """The same rows as tables with the columns `COLUMNS`; texts as they stand in the database."""
    for frame in _tables(connection, run, time="{} AT TIME ZONE 'UTC'"):
        yield frame.with_columns(
            pl.col(name).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us").dt.replace_time_zone("UTC")
            for name in _TIMES
        )


def _tables(connection: Connection, run: int, *, time: str) -> Iterator[pl.DataFrame]:
    """The tables with times as the texts that this expression makes of them."""
    columns = ", ".join(time.format(name) if name in _TIMES else name for name in COLUMNS)
    for chunk in _chunks(connection, run, columns, "FORMAT csv"):
        frame = pl.read_csv(chunk, has_header=False, schema=_COPIED)
        yield frame.with_columns(pl.col("used") == "t")


def _chunks(connection: Connection, run: int, columns: str, options: str) -> Iterator[bytes]:
    """Many whole rows at a time."""
    rows = SQL["ledger_rows"].rstrip(";").replace("%(run)s", str(int(run)))
    with connection.transaction():
        connection.execute("SET LOCAL TIME ZONE 'UTC'")
        query = sql.SQL("COPY (SELECT {columns} FROM ({rows}) AS row) TO STDOUT ({options})").format(
            columns=sql.SQL(columns), rows=sql.SQL(rows), options=sql.SQL(options)
        )
        with connection.cursor().copy(query) as copy:
            collected = bytearray()
            for row in copy:
                collected += row
                if len(collected) >= _CHUNK_BYTES:
                    yield bytes(collected)
                    collected.clear()
            if collected:
                yield bytes(collected)


def write_json(connection: Connection, out: BinaryIO, *, run: int) -> int:
    """Write JSON Lines; give the number of rows."""
    rows = 0
    for chunk in json_chunks(connection, run=run):
        out.write(chunk)
        rows += chunk.count(b"\n")
    return rows


def write_csv(connection: Connection, out: BinaryIO, *, run: int) -> int:
    """Write CSV with a header, in which no cell is a formula; give the number of rows."""
    out.write((",".join(COLUMNS) + "\n").encode())
    rows = 0
    for frame in _tables(connection, run, time="to_json({}) #>> '{{}}'"):
        safe = frame.with_columns(_safe_cells(frame[name]) for name in frame.columns)
        # Not by polars itself, which does not say of a pipe that it was closed.
        out.write(safe.write_csv(include_header=False).encode())
        rows += frame.height
    return rows


def _safe_cells(column: pl.Series) -> pl.Series:
    if column.dtype != pl.String:
        return column
    unsafe = column.str.contains(_UNSAFE_CELL).fill_null(False)
    if not unsafe.any():
        return column
    plain = _plain_json if column.name in JSON_COLUMNS else from_database
    cells = column.to_list()
    for index in unsafe.arg_true():
        cells[index] = csv_text(plain(cells[index]))
    return pl.Series(column.name, cells, dtype=pl.String)


def _plain_json(text: str) -> str:
    return json_from_database(text.encode()).decode()


def write_parquet(connection: Connection, out: BinaryIO, *, run: int) -> int:
    """Write Parquet, a row group for some thousand rows; give the number of rows."""
    rows = 0

    def batches(*_: object) -> Iterator[pl.DataFrame]:
        nonlocal rows
        for frame in frames(connection, run=run):
            rows += frame.height
            yield frame

    lazy = register_io_source(batches, schema=dict(COLUMNS), is_pure=True)
    lazy.sink_parquet(out, row_group_size=_ROW_GROUP)
    return rows


Writer = Callable[..., int]

WRITERS: dict[str, Writer] = {"jsonl": write_json, "csv": write_csv, "parquet": write_parquet}
"""Format -> `write(connection, out, run=…)`."""
