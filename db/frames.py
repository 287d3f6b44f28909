"""A run as the frames that the analysis takes."""

import io
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from analysis.frames import CALLS, OUTCOMES, STRATEGIES, Column
from db.connection import Connection
from db.queries import SQL
from db.text import MARK, encodable


@dataclass(frozen=True, kw_only=True)
class RunFrames:
    """`analysis.frames` says what the columns mean. Lone surrogates, which no frame can hold, are `\\uXXXX` here."""

    outcomes: pl.DataFrame
    calls: pl.DataFrame
    strategies: pl.DataFrame


def read_frames(connection: Connection, *, run: int) -> RunFrames:
    """Everything about a run that the analysis needs, read in one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL TIME ZONE 'UTC'")
        return RunFrames(
            outcomes=_frame(connection, "read_outcomes", run, OUTCOMES),
            calls=_calls(connection, run),
            strategies=_frame(connection, "read_families", run, STRATEGIES),
        )


def _frame(connection: Connection, statement: str, run: int, columns: Mapping[str, Column]) -> pl.DataFrame:
    rows = connection.execute(SQL[statement], {"run": run}).fetchall()
    for row in rows:
        row |= {name: encodable(text) for name, text in row.items() if isinstance(text, str)}
    return pl.DataFrame(rows, schema={name: column.dtype for name, column in columns.items()})


def _calls(connection: Connection, run: int) -> pl.DataFrame:
    # CSV by COPY: a million rows cross over in seconds, which row by row they would not.
    buffer = io.BytesIO()
    query = SQL["copy_calls"].rstrip(";").replace("%(run)s", str(int(run)))
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)") as copy:
        for block in copy:
            buffer.write(block)
    buffer.seek(0)
    frame = pl.read_csv(buffer, infer_schema=False)
    return frame.with_columns(_typed(frame[name], CALLS[name]) for name in frame.columns)


def _typed(texts: pl.Series, column: Column) -> pl.Series:
    if column.dtype == pl.Boolean:
        return texts == "t"
    if column.dtype != pl.String:
        return texts.cast(column.dtype)
    if not texts.str.contains(MARK, literal=True).any():
        return texts
    return pl.Series(texts.name, [text and encodable(text) for text in texts], dtype=pl.String)
