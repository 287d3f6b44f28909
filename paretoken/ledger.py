"""`paretoken export` and `paretoken import`: the ledger as a file."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paretoken.errors import InputError
from paretoken.reporting import RunId

if TYPE_CHECKING:
    from db.connection import Connection


def export(
    run_id: RunId,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; default: standard output.")
    ] = None,
) -> None:
    """Write a run's ledger as JSON Lines: one row for every HTTP attempt.

    Example: paretoken export arena --out ledger.jsonl
    """
    from db import connection as database
    from db.ledger import export_lines
    from db.runs import find_run
    from paretoken.services import readable_database

    with readable_database() as database_url, database.connect(database_url) as connection:
        if out is not None:
            rows = write_ledger(connection, run_id, out)
            typer.echo(f"{rows:,} rows: {out}", err=True)
            return
        for line in export_lines(connection, run=find_run(connection, run_id)["id"]):
            sys.stdout.buffer.write(line + b"\n")


def write_ledger(connection: "Connection", run_id: str, path: Path) -> int:
    """Write the run's ledger to a file, whole or not at all; give the number of rows."""
    from db.ledger import export_lines
    from db.runs import find_run

    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    rows = 0
    try:
        with unfinished.open("wb") as file:
            for line in export_lines(connection, run=find_run(connection, run_id)["id"]):
                file.write(line + b"\n")
                rows += 1
        unfinished.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}). Choose another file with --out."
        ) from None
    finally:
        unfinished.unlink(missing_ok=True)
    return rows


def import_(file: Annotated[Path, typer.Argument(help="Ledger file (JSON Lines).")]) -> None:
    """Read a ledger file into the database as a finished run of its own name.

    Example: paretoken import ledger.jsonl
    """
    raise NotImplementedError
