"""The check that runs the answer's SQL on a local copy of the task's CSV."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar

from pydantic import Field, model_validator

from analysis.wording import counted
from workers import sandbox
from workers.checks.base import CheckContext, Checked
from workers.checks.comparing import Tolerant
from workers.fences import fenced_blocks


class Sql(Tolerant):
    """The answer's SQL, run on a SQLite database in memory that holds the CSV, gives the expected rows.

    The SQL is what stands in the answer's fenced blocks (those marked `sql` when there are any), or else the
    whole answer. It may create, fill and query tables there; ATTACH, PRAGMA, extensions, files and anything
    without end are refused.
    """

    kind: ClassVar[str] = "sql"
    quick: ClassVar[bool] = False

    file: str
    """Name of the CSV among the task's files."""
    table: str = ""
    """The table that holds it; default: the file's name without its ending."""
    nulls: Sequence[str] = ("", "NA")
    """Fields that are NULL in the table."""
    rows: Sequence[Sequence[Any]]
    """The expected rows."""
    ordered: bool = False
    """The rows have to come in this order."""
    columns: Sequence[str] = ()
    """The expected column names; not looked at when empty."""
    result: int = Field(default=-1, ge=-1)
    """Which result of the SQL is compared: 1 is its first statement that gives rows, -1 the last one."""
    query: str = ""
    """Compare the result of this query instead, run after the answer's SQL on what that has left behind."""

    @model_validator(mode="after")
    def _one_result(self) -> "Sql":
        if self.result == 0:
            raise ValueError("result counts from 1; -1 is the last")
        if self.query and self.result != -1:
            raise ValueError("give either query or result")
        return self

    def run(self, answer: str, context: CheckContext) -> Checked:
        script = sql_in(answer)
        if not script.strip():
            return Checked(passed=False, message="there is no SQL in the answer")
        if self.file not in context.files:
            return Checked(passed=False, message=f"the task has no file {self.file!r}; add it to its files")
        try:
            found = self._found(script, context.files[self.file])
        except sandbox.Refused as refused:
            return Checked(passed=False, message=str(refused))
        fault = self._fault(found["columns"], found["rows"])
        message = fault or f"{counted(len(self.rows), 'row')} as expected"
        return Checked(passed=not fault, message=message, seen=found)

    def _found(self, script: str, content: bytes) -> Mapping[str, Any]:
        found: Mapping[str, Any] = sandbox.run(
            "sql",
            csv_text=content.decode("utf-8-sig", errors="replace"),
            table=self.table or PurePath(self.file).stem,
            nulls=list(self.nulls),
            script=script,
            query=self.query,
            result=self.result,
            cpu_s=sandbox.CPU_S,
        )
        return found

    def _fault(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
        if self.columns and list(self.columns) != list(columns):
            return f"expected the columns {list(self.columns)}, seen {list(columns)}"
        if len(rows) != len(self.rows):
            return f"expected {counted(len(self.rows), 'row')}, seen {len(rows)}"
        left = [list(row) for row in rows]
        for row in map(list, self.rows):
            candidates = left[:1] if self.ordered else left
            found = next((index for index, other in enumerate(candidates) if self.same(row, other)), None)
            if found is None:
                return f"the row {row} is missing" + (f", in its place is {left[0]}" if self.ordered else "")
            del left[found]
        return ""


def sql_in(answer: str) -> str:
    """The SQL of an answer: its `sql` blocks, or else all its fenced blocks, or else all of it."""
    blocks = fenced_blocks(answer)
    marked = [block for block in blocks if block.language == "sql"] or blocks
    return "\n;\n".join(block.text for block in marked) if marked else answer
