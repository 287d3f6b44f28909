"""Files that are there as a whole or not at all, with text made safe for where it is read."""

import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from analysis.destination import destination
from analysis.safetext import csv_text


def write_chunks(path: Path, chunks: Iterable[str]) -> Path:
    """Write UTF-8 text under a temporary name in the same folder, then rename it into place."""
    return _write(path, (chunk.encode("utf-8") for chunk in chunks))


def write_bytes(path: Path, content: bytes) -> Path:
    """The same for what is no text."""
    return _write(path, [content])


def _write(path: Path, chunks: Iterable[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    target = destination(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(chunks)
        # mkstemp files are private; a report is for whoever may read the folder.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def write_csv(path: Path, table: pl.DataFrame) -> Path:
    """Write a table as CSV: unknown is an empty cell, numbers have 12 digits, no text is taken for a formula."""
    texts = [name for name, dtype in table.schema.items() if dtype == pl.String]
    safe = table.with_columns(_safe_column(table[name]) for name in texts)
    return write_chunks(path, [safe.with_columns(pl.col(pl.Float64).round_sig_figs(12)).write_csv()])


def write_parquet(path: Path, table: pl.DataFrame) -> Path:
    """Write a table as Parquet: exact numbers and texts, unknown is null."""
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return write_bytes(path, buffer.getvalue())


def write_json_list(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write a JSON list with one row per line, so that it can be long and still be read by eye."""
    return write_chunks(path, _json_lines(rows))


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "["
    for number, row in enumerate(rows):
        yield ("\n" if number == 0 else ",\n") + json.dumps(row, ensure_ascii=False, allow_nan=False)
    yield "\n]\n"


def _safe_column(column: pl.Series) -> pl.Series:
    changed = {text: csv_text(text) for text in column.unique().drop_nulls() if csv_text(text) != text}
    return column.replace(changed) if changed else column
