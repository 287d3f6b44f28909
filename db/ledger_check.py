"""The rows of a ledger file, checked, as tables for the database.

Parts of some thousand rows are checked as one table (`db.ledger_columns`), which accepts what is plainly right and
nothing that `LedgerRow` refuses. Any other part goes row by row (`db.ledger_reader`): there too what is plainly right
is read quickly, and all else by `LedgerRow`, which accepts it or says what is wrong.
"""

from collections.abc import Iterator

import polars as pl

from db.errors import LedgerInvalid
from db.ledger_files import LedgerFile, block_lines, table_lines
from db.ledger_frames import frames, plain_frame, plain_table
from db.ledger_reader import CheckedRow, read_row
from db.text import json_to_database


class LedgerCheck:
    """Checks rows by themselves, and whether they are of the same run as the first one."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self.run_id: str | None = None
        self.source_platform = ""
        self._began = 0

    def rows(self) -> Iterator[CheckedRow]:
        """All rows of the file."""
        for number, text in self._file.rows():
            yield self._row(number, text)

    def frames(self) -> Iterator[pl.DataFrame]:
        """All rows of the file in tables."""
        for number, frame, lines in self._parts():
            if frame is not None and self._of_run(number, frame):
                yield frame
            else:
                yield from frames(self._row(*numbered) for numbered in lines)

    def _parts(self) -> Iterator[tuple[int, pl.DataFrame | None, Iterator[tuple[int, bytes]]]]:
        """(first number, table if all its rows are plainly right, its rows as JSON with their numbers)"""
        match self._file.format:
            case "jsonl":
                for number, block in self._file.blocks():
                    yield number, plain_frame(number, block), block_lines(number, block)
            case "parquet":
                for number, table in self._file.tables():
                    yield number, plain_table(number, table), table_lines(self._file, number, table)
            case _:
                yield 1, None, self._file.rows()

    def _of_run(self, number: int, table: pl.DataFrame) -> bool:
        if self.run_id is None:
            self._begin(number, table["run_id"][0], table["source_platform"][0])
        same = (pl.col("run_id") == self.run_id) & (pl.col("source_platform") == self.source_platform)
        return bool(table.select((same & (~pl.col("used") | (pl.col("status") == "ok"))).all()).item())

    def _begin(self, number: int, run_id: str, source_platform: str) -> None:
        self._began, self.run_id, self.source_platform = number, run_id, source_platform

    def _row(self, number: int, text: bytes) -> CheckedRow:
        line = json_to_database(text)
        row = read_row(line, self._file.place, number)
        if self.run_id is None:
            self._begin(number, row.run_id, row.source_platform)
        if row.run_id != self.run_id:
            raise self._stranger(number, "run_id", row.run_id, self.run_id)
        if row.source_platform != self.source_platform:
            raise self._stranger(number, "source_platform", row.source_platform, self.source_platform)
        if row.used and row.status != "ok":
            raise LedgerInvalid(
                f"{self._file.place(number)}: used: true, but status is {row.status!r}; only an answer is used."
            )
        return number, line, row

    def _stranger(self, number: int, field: str, theirs: str, ours: str | None) -> LedgerInvalid:
        return LedgerInvalid(
            f"{self._file.place(number)}: {field}: {theirs!r}, but {ours!r} in "
            f"{self._file.short_place(self._began)}. Import one run a file."
        )
