"""Ledger files as they are read: JSON Lines, CSV or Parquet, each row as one line of JSON with its number."""

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.safetext import csv_value
from db.errors import LedgerInvalid
from db.ledger_row import COLUMNS, JSON_COLUMNS
from db.text import json_from_database

ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}

_BATCH_ROWS = 10_000
# Of JSON Lines, about as many rows.
_BLOCK_BYTES = 8_000_000
# Cells that hold JSON as it is; all others hold text.
_BARE = {name for name, kind in COLUMNS.items() if kind in (pl.Int64, pl.Float64, pl.Boolean)} | {
    *JSON_COLUMNS
}


@dataclass(frozen=True, kw_only=True)
class LedgerFile:
    """A ledger file, its format (`jsonl`, `csv` or `parquet`), and whether gzip packs it."""

    path: Path
    format: str
    packed: bool

    def place(self, number: int) -> str:
        """Where a row stands, for a message: a line of text, or a row below the header."""
        return f"{self.path}:{number}" if self.format == "jsonl" else f"{self.path}: row {number}"

    def short_place(self, number: int) -> str:
        """The same where the file has been named already."""
        return f"line {number}" if self.format == "jsonl" else f"row {number}"

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """(number from 1, JSON text) of every row, in bounded memory.

        Raises:
            LedgerInvalid: it cannot be read, or is no file of its format.
        """
        read = {"jsonl": _json_rows, "csv": _csv_rows, "parquet": _parquet_rows}[self.format]
        with self._opened():
            yield from read(self)

    def blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """(number of its first line, lines as they are) of every part of a JSON Lines file, in bounded memory.

        Raises:
            LedgerInvalid: as `rows`.
        """
        with self._opened():
            yield from _json_blocks(self)

    def tables(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """(number of its first row, table) of every part of a Parquet file, in bounded memory.

        Raises:
            LedgerInvalid: as `rows`.
        """
        with self._opened():
            yield from _parquet_tables(self)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        try:
            self.path.open("rb").close()
            yield
        except (gzip.BadGzipFile, zlib.error, EOFError):
            raise LedgerInvalid(f"{self.path}: no gzip file, or a damaged one. Copy it again.") from None
        except OSError as error:
            raise LedgerInvalid(f"{self.path}: cannot be read ({error.strerror or error}).") from None
        except pl.exceptions.PolarsError as error:
            said = str(error).splitlines()[0]
            raise LedgerInvalid(f"{self.path}: cannot be read as {self.format}: {said}") from None


def ledger_file(path: Path, given: str | None = None) -> LedgerFile:
    """The file with its format: the given one, or what its ending says (`.gz` after it: packed).

    Raises:
        LedgerInvalid: neither says which.
    """
    packed = path.suffix == ".gz"
    ending = path.with_suffix("").suffix if packed else path.suffix
    found = given or ENDINGS.get(ending)
    if found is None:
        raise LedgerInvalid(
            f"{path}: the ending {ending!r} names no format. Use {', '.join(ENDINGS)}, or give --format."
        )
    if packed and found == "parquet":
        raise LedgerInvalid(f"{path}: Parquet is packed already; leave off .gz.")
    return LedgerFile(path=path, format=found, packed=packed)


def existing_file(path: Path, given: str | None = None) -> LedgerFile:
    """The same of a file that is to be read.

    Raises:
        LedgerInvalid: it is not there, or is a folder; or as `ledger_file`.
    """
    if not path.exists():
        raise LedgerInvalid(f"{path}: there is no such file. Name a ledger file.")
    if path.is_dir():
        raise LedgerInvalid(f"{path}: is a directory. Name a ledger file in it.")
    return ledger_file(path, given)


def _json_rows(file: LedgerFile) -> Iterator[tuple[int, bytes]]:
    for number, block in _json_blocks(file):
        yield from block_lines(number, block)


def _json_blocks(file: LedgerFile) -> Iterator[tuple[int, list[bytes]]]:
    with file.path.open("rb") as raw:
        lines = gzip.GzipFile(fileobj=raw) if file.packed else raw
        number = 1
        while block := lines.readlines(_BLOCK_BYTES):
            yield number, block
            number += len(block)


def block_lines(number: int, block: list[bytes]) -> Iterator[tuple[int, bytes]]:
    """The rows of a part of a JSON Lines file, each with its number."""
    for at, line in enumerate(block, start=number):
        text = (line.removeprefix(codecs.BOM_UTF8) if at == 1 else line).strip()
        if text:
            yield at, text


def _csv_rows(file: LedgerFile) -> Iterator[tuple[int, bytes]]:
    frame = pl.scan_csv(file.path, infer_schema=False)
    number = 0
    for batch in frame.collect_batches(maintain_order=True):
        for cells in batch.iter_rows(named=True):
            number += 1
            place = file.place(number)
            fields = (f"{json.dumps(name)}:{_cell(name, cell, place)}" for name, cell in cells.items())
            yield number, f"{{{','.join(fields)}}}".encode()


def _cell(name: str, cell: str | None, place: str) -> str:
    if cell is None:
        return "null"
    text = csv_value(cell)
    return _bare(name, text, place) if name in _BARE else json.dumps(text)


def _bare(name: str, text: str, place: str) -> str:
    """Text that is JSON stays as it is; anything else becomes a JSON string, which no number's field accepts."""
    try:
        json.loads(text)
    except ValueError:
        if name == "usage":  # which accepts any
            raise LedgerInvalid(f"{place}: usage: no JSON. Write it as the gateway reported it.") from None
        return json.dumps(text)
    return text


def _parquet_rows(file: LedgerFile) -> Iterator[tuple[int, bytes]]:
    for number, table in _parquet_tables(file):
        yield from table_lines(file, number, table)


def _parquet_tables(file: LedgerFile) -> Iterator[tuple[int, pl.DataFrame]]:
    number = 1
    frame = pl.scan_parquet(file.path)
    for name, kind in frame.collect_schema().items():
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise LedgerInvalid(
                f"{file.path}: {name}: a column of {kind}. Write numbers, times and texts, and what is JSON as text."
            )
    for found in frame.collect_batches(maintain_order=True):
        for part in found.iter_slices(_BATCH_ROWS) if found.height else ():
            yield number, part
            number += part.height


def table_lines(file: LedgerFile, number: int, table: pl.DataFrame) -> Iterator[tuple[int, bytes]]:
    """The rows of a part of a Parquet file as JSON text, the first of which has this number."""
    _require_finite(file, number, table)
    bare = [name for name in JSON_COLUMNS if name in table.columns]
    lines = table.drop(bare).write_ndjson().encode().splitlines()
    for at, (line, texts) in enumerate(zip(lines, table.select(bare).iter_rows(), strict=True), start=number):
        more = (
            f',"{name}":{_bare(name, text, file.place(at))}'
            for name, text in zip(bare, texts, strict=True)
            if text is not None
        )
        yield at, json_from_database(line[:-1] + "".join(more).encode() + b"}")


def _require_finite(file: LedgerFile, number: int, table: pl.DataFrame) -> None:
    """JSON has no infinity and no NaN: they would come out as unknown."""
    for column in table.select(pl.selectors.float()).iter_columns():
        odd = (~column.is_finite()).arg_true()
        if len(odd):
            found = column[int(odd[0])]
            place = file.place(number + int(odd[0]))
            raise LedgerInvalid(f"{place}: {column.name}: Input should be a finite number (found {found}).")
