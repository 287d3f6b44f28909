"""`paretoken export` and `paretoken import`: the ledger as a file."""

import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from analysis.wording import counted
from paretoken.errors import InputError
from paretoken.reporting import RunId

if TYPE_CHECKING:
    from db.connection import Connection

# The least work for zlib that still packs JSON to about a tenth.
_GZIP_LEVEL = 4


class Format(StrEnum):
    """Formats of a ledger file."""

    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"


def export(
    run_id: RunId,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write, also .gz; default or '-': standard output.")
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Default: what the file's ending says; jsonl without a file."),
    ] = None,
) -> None:
    """Write a run's ledger as JSON Lines, CSV or Parquet: one row for every HTTP attempt.

    Example: paretoken export arena --out ledger.jsonl.gz
    """
    from db import connection as database
    from db.ledger_files import ledger_file
    from paretoken.services import migrated_database

    target = None if out is None or str(out) == "-" else ledger_file(out, format_)
    if target is None and format_ is Format.parquet:
        raise InputError("Parquet is no text: name a file with --out.")
    with migrated_database() as database_url, database.connect(database_url) as connection:
        if target is None:
            _write(connection, run_id, sys.stdout.buffer, format_ or Format.jsonl)
            return
        rows = write_ledger(connection, run_id, target.path, format_)
        typer.echo(f"{counted(rows, 'row')}: {target.path}", err=True)


def write_ledger(connection: "Connection", run_id: str, path: Path, format_: Format | None = None) -> int:
    """Write the run's ledger to a file, whole or not at all; give the number of rows.

    When it returns, the file outlives a loss of power: its run may be deleted.
    """
    from analysis.destination import destination
    from db.ledger_files import ledger_file

    target = ledger_file(path, format_)
    try:
        place = destination(path)
        with _unfinished(place) as unfinished:
            with unfinished.open("wb") as file, _packed(file) if target.packed else nullcontext(file) as out:
                rows = _write(connection, run_id, out, Format(target.format))
            _to_disk(unfinished)
            unfinished.replace(place)
            _to_disk(place.parent)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}). Choose another file with --out."
        ) from None
    return rows


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A name beside the file for what is not whole yet; afterwards nothing has it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _to_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _packed(file: BinaryIO) -> BinaryIO:
    # Neither name nor time goes in: the same ledger gives the same file.
    packed = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0, filename="")
    return cast(BinaryIO, packed)


def _write(connection: "Connection", run_id: str, out: BinaryIO, format_: Format) -> int:
    from db.ledger import WRITERS
    from db.runs import find_run

    return WRITERS[format_](connection, out, run=find_run(connection, run_id)["id"])


def import_(
    file: Annotated[Path, typer.Argument(help="Ledger file: .jsonl or .csv, also with .gz, or .parquet.")],
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="Name of the new run; default: the one in the file.")
    ] = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="Default: what the file's ending says.")
    ] = None,
) -> None:
    """Read a ledger file into the database as a finished run: whole or not at all.

    Its calls, tokens and costs are known then; whether an answer was right no ledger says.

    Example: paretoken import ledger.jsonl --run-id theirs
    """
    from db import connection as database
    from db.ledger_files import existing_file
    from db.ledger_import import import_ledger
    from paretoken.services import migrated_database

    source = existing_file(file, format_)
    with migrated_database() as database_url, database.connect(database_url) as connection:
        made = import_ledger(connection, source, run_id=run_id, on_wait=_say_waiting)
    typer.echo(
        f"Run {made.run_id}: {counted(made.rows, 'row')}, {counted(made.trials, 'trial')}. "
        f"Next: paretoken report {made.run_id}"
    )


def _say_waiting() -> None:
    typer.echo("Another import is at work; this one begins when it has ended.", err=True)
