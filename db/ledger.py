"""The ledger of a run as JSON Lines, CSV or Parquet: one row for every HTTP attempt that has an outcome.

All three hold the fields of `db.ledger_row`, ordered by task, strategy, repeat, try, round, sample, attempt, turn,
and are read again by `db.ledger_import`. Postgres writes the JSON, in one snapshot; the other two are made of it,
some thousand rows at a time.

| format  | unknown    | NUL and lone surrogates                                        |
|---------|------------|----------------------------------------------------------------|
| JSON    | null       | `\\u0000`, `\\ud800`: as the gateway sent them                   |
| CSV     | empty cell | `\\u0000` as text (`analysis.safetext`); an empty text is `""`  |
| Parquet | null       | U+F8F0 and four hexadecimal digits (`db.text`)                 |
"""

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import polars as pl
from polars.io.plugins import register_io_source

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
# Polars reads times many times faster from texts than straight from JSON.
_TEXT_COLUMNS = {**COLUMNS, **dict.fromkeys(_TIMES, pl.String)}


def export_lines(connection: Connection, *, run: int) -> Iterator[bytes]:
    """The run's ledger rows as JSON objects, one by one."""
    for chunk in json_chunks(connection, run=run):
        yield from chunk[:-1].split(b"\n")


def json_chunks(connection: Connection, *, run: int) -> Iterator[bytes]:
    """The run's ledger rows as JSON Lines, many whole lines at a time."""
    for chunk in _chunks(connection, run, json_as=""):
        yield json_from_database(chunk)


def frames(connection: Connection, *, run: int) -> Iterator[pl.DataFrame]:
    """The same rows as tables with the columns `COLUMNS`; texts as they stand in the database."""
    for frame in _texts(connection, run):
        yield frame.with_columns(
            pl.col(name).str.to_datetime("%+", time_unit="us", time_zone="UTC") for name in _TIMES
        )


def _texts(connection: Connection, run: int) -> Iterator[pl.DataFrame]:
    """The tables with times as texts."""
    for chunk in _chunks(connection, run, json_as="::text"):
        yield pl.read_ndjson(chunk, schema=_TEXT_COLUMNS)


def _chunks(connection: Connection, run: int, *, json_as: str) -> Iterator[bytes]:
    query = SQL["copy_ledger"].rstrip(";").replace("%(run)s", str(int(run))).replace("%(json_as)s", json_as)
    # A CSV copy whose quote and delimiter JSON cannot hold gives the lines untouched.
    options = r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'"
    with connection.transaction():
        connection.execute("SET LOCAL TIME ZONE 'UTC'")
        with connection.cursor().copy(f"COPY ({query}) TO STDOUT ({options})") as copy:
            yield from _whole_lines(copy)


def _whole_lines(blocks: Iterable[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    collected = bytearray()
    for block in blocks:
        collected += block
        if len(collected) >= _CHUNK_BYTES:
            end = collected.rfind(b"\n") + 1
            if end:
                yield bytes(collected[:end])
                del collected[:end]
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
    for frame in _texts(connection, run):
        safe = frame.with_columns(_safe_cells(frame[name]) for name in frame.columns)
        safe.write_csv(out, include_header=False)
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
