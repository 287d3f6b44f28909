"""A run as the frames that the analysis takes."""

import io
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from analysis.frames import CALLS, OUTCOMES, STRATEGIES, Column
from analysis.judges import READINGS, VERDICTS, judge_quality
from db.connection import Connection
from db.queries import SQL
from db.text import MARK, encodable

ColumnType = pl.DataType | type[pl.DataType]


@dataclass(frozen=True, kw_only=True)
class RunFrames:
    """`analysis.frames` says what the columns mean. Lone surrogates, which no frame can hold, are `\\uXXXX` here."""

    outcomes: pl.DataFrame
    calls: pl.DataFrame
    strategies: pl.DataFrame


@dataclass(frozen=True, kw_only=True)
class Judged:
    """`analysis.judges` says what the columns mean."""

    verdicts: pl.DataFrame
    quality: pl.DataFrame


def read_frames(connection: Connection, *, run: int) -> RunFrames:
    """Everything about a run that the analysis needs, read in one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL TIME ZONE 'UTC'")
        return RunFrames(
            outcomes=_frame(connection, "read_outcomes", run, OUTCOMES),
            calls=_typed_copy(
                connection, "copy_calls", run, {name: column.dtype for name, column in CALLS.items()}
            ),
            strategies=_frame(connection, "read_families", run, STRATEGIES),
        )


def _frame(connection: Connection, statement: str, run: int, columns: Mapping[str, Column]) -> pl.DataFrame:
    rows = connection.execute(SQL[statement], {"run": run}).fetchall()
    for row in rows:
        row |= {name: encodable(text) for name, text in row.items() if isinstance(text, str)}
    return pl.DataFrame(rows, schema={name: column.dtype for name, column in columns.items()})


def read_judged(connection: Connection, *, run: int) -> Judged:
    """What the judges of a run said so far, read in one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        verdicts = _typed_copy(connection, "copy_verdicts", run, VERDICTS)
        texts = _copied(connection, "copy_readings", run)
    readings = texts.with_columns(
        pl.col(name).str.json_decode(dtype) if isinstance(dtype, pl.List) else pl.col(name).cast(dtype)
        for name, dtype in READINGS.items()
    )
    return Judged(verdicts=verdicts, quality=judge_quality(readings, verdicts))


def _copied(
    connection: Connection, statement: str, run: int, types: Mapping[str, ColumnType] | None = None
) -> pl.DataFrame:
    """Rows by CSV, of which a million cross over in seconds; columns without a type come as texts."""
    buffer = io.BytesIO()
    query = SQL[statement].rstrip(";").replace("%(run)s", str(int(run)))
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)") as copy:
        for block in copy:
            buffer.write(block)
    buffer.seek(0)
    return pl.read_csv(buffer, infer_schema=False, schema_overrides=types or {})


def _typed_copy(
    connection: Connection, statement: str, run: int, types: Mapping[str, ColumnType]
) -> pl.DataFrame:
    read = {name: dtype for name, dtype in types.items() if dtype != pl.Boolean}
    frame = _copied(connection, statement, run, read)
    return frame.with_columns(_typed(frame[name], types[name]) for name in frame.columns)


def _typed(column: pl.Series, dtype: ColumnType) -> pl.Series:
    if dtype == pl.Boolean:
        return column == "t"
    if dtype != pl.String or not column.str.contains(MARK, literal=True).any():
        return column
    return pl.Series(column.name, [text and encodable(text) for text in column], dtype=pl.String)
