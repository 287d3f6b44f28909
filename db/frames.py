"""A run as the frames that the analysis takes."""

import io
from dataclasses import dataclass

import polars as pl

from analysis.frames import CALLS, OUTCOMES
from db.connection import Connection
from db.queries import SQL
from db.text import from_database


@dataclass(frozen=True, kw_only=True)
class RunFrames:
    """`analysis.frames` says what the columns mean."""

    outcomes: pl.DataFrame
    calls: pl.DataFrame
    strategies: pl.DataFrame


def read_frames(connection: Connection, *, run: int) -> RunFrames:
    """Everything about a run that the analysis needs, read in one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return RunFrames(
            outcomes=_outcomes(connection, run),
            calls=_calls(connection, run),
            strategies=pl.DataFrame(connection.execute(SQL["read_families"], {"run": run}).fetchall()),
        )


def _outcomes(connection: Connection, run: int) -> pl.DataFrame:
    rows = connection.execute(SQL["read_outcomes"], {"run": run}).fetchall()
    for row in rows:
        row["output"] = row["output"] and from_database(row["output"])
    return pl.DataFrame(rows, schema={name: column.dtype for name, column in OUTCOMES.items()})


def _calls(connection: Connection, run: int) -> pl.DataFrame:
    # CSV by COPY: a million rows cross over in seconds, which row by row they would not.
    buffer = io.BytesIO()
    query = SQL["copy_calls"].rstrip(";").replace("%(run)s", str(int(run)))
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)") as copy:
        for block in copy:
            buffer.write(block)
    buffer.seek(0)
    frame = pl.read_csv(buffer, infer_schema=False)
    return frame.with_columns(
        pl.col(name) == "t" if CALLS[name].dtype == pl.Boolean else pl.col(name).cast(CALLS[name].dtype)
        for name in frame.columns
        if CALLS[name].dtype != pl.String
    )
