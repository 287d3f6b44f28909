"""Tools on CSV files: describe one, query all of them with SQL. Both run in the sandbox."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, ClassVar

from workers import sandbox
from workers.tools.base import Folder, Tool, ToolRefused

MOST_ROWS = 200
MOST_CHARS = 50_000
MAX_CSV_BYTES = 10_000_000
NULLS = ("", "NA")


class DescribeCsv(Tool):
    """Describe a CSV file: number of rows, and each column's type, missing values and range."""

    kind: ClassVar[str] = "describe_csv"

    name: str
    """Name of the file."""

    def run(self, folder: Folder) -> str:
        found = _sandboxed("describe", csv_text=_text(folder, self.name), nulls=NULLS)
        lines = [", ".join(f"{key} {value}" for key, value in column.items()) for column in found["columns"]]
        tables = {file: table for table, file in _tables(folder).items()}
        heading = f"{self.name}: {found['rows']} rows, table {tables.get(self.name, 'none')} in SQL"
        if found["uneven"]:
            numbers = ", ".join(map(str, found["uneven"]))
            heading += (
                f"\nDamaged: these rows have not {len(found['columns'])} fields: {numbers}. They count in no column "
                "below, and SQL cannot be used before they are put right."
            )
        return "\n".join([heading, *lines])


class QueryCsv(Tool):
    """Run one SELECT (SQLite) over the CSV files. Each file is a table with the file's name without `.csv`; empty
    fields and NA are NULL. Nothing can be changed."""

    kind: ClassVar[str] = "query_csv"

    sql: str
    """One SELECT statement."""

    def run(self, folder: Folder) -> str:
        # Only what the statement can be about: loading a large file that it does not name takes time.
        named = {
            table: _text(folder, file)
            for table, file in _tables(folder).items()
            if table.casefold() in self.sql.casefold()
        }
        found = _sandboxed(
            "query",
            tables=named,
            nulls=NULLS,
            statement=self.sql,
            most_rows=MOST_ROWS,
            most_chars=MOST_CHARS,
            cpu_s=sandbox.CPU_S,
        )
        lines = [" | ".join(map(_shown, row)) for row in [found["columns"], *found["rows"]]]
        cut = f"\n[cut after {len(found['rows'])} rows; select fewer]" if found["more"] else ""
        return "\n".join(lines) + cut


def _sandboxed(action: str, **arguments: Any) -> Any:
    try:
        return sandbox.run(action, load_s=sandbox.LOAD_S, **arguments)
    except sandbox.Refused as refused:
        raise ToolRefused(str(refused)) from None


def _tables(folder: Folder) -> Mapping[str, str]:
    """Table -> file, for every CSV of the folder."""
    tables: dict[str, str] = {}
    for file in folder.files:
        if file.casefold().endswith(".csv"):
            stem = re.sub(r"\W", "_", PurePosixPath(file).stem)
            taken = {table.casefold() for table in tables}
            number = sum(
                table == stem.casefold() or table.startswith(f"{stem.casefold()}__") for table in taken
            )
            tables[f"{stem}__{number + 1}" if number else stem] = file
    return tables


def _text(folder: Folder, name: str) -> str:
    content = folder.read(name)
    if len(content) > MAX_CSV_BYTES:
        raise ToolRefused(f"{name} has {len(content):,} bytes; tables are made of at most {MAX_CSV_BYTES:,}")
    return content.decode("utf-8-sig", "replace")


def _shown(cell: Any) -> str:
    return "NULL" if cell is None else str(cell)
