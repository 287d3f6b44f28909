"""Tools on the files themselves: list, read, write."""

from typing import ClassVar

from pydantic import Field

from workers.tools.base import Folder, Tool

_MOST_CHARS = 100_000


class ListFiles(Tool):
    """List the files that you can use, with their sizes in bytes."""

    kind: ClassVar[str] = "list_files"

    def run(self, folder: Folder) -> str:
        lines = [f"{name} ({len(content)} bytes)" for name, content in folder.files.items()]
        return "\n".join(lines) or "There are no files."


class ReadFile(Tool):
    """Read some lines of a text file."""

    kind: ClassVar[str] = "read_file"

    name: str
    """Name of the file."""
    first_line: int = Field(default=1, ge=1)
    """Number of the first line, from 1."""
    lines: int = Field(default=100, ge=1, le=10_000)
    """How many lines."""

    def run(self, folder: Folder) -> str:
        lines = folder.read(self.name).decode("utf-8", "replace").splitlines()
        last = min(len(lines), self.first_line + self.lines - 1)
        if self.first_line > len(lines):
            return f"{self.name} has {len(lines)} lines; line {self.first_line} is past its end."
        text = "\n".join(lines[self.first_line - 1 : last])
        if len(text) > _MOST_CHARS:
            text = f"{text[:_MOST_CHARS]}\n[cut at {_MOST_CHARS:,} characters]"
        return f"Lines {self.first_line} to {last} of {len(lines)}:\n{text}"


class WriteResult(Tool):
    """Write a result file, or write it anew."""

    kind: ClassVar[str] = "write_result"

    name: str
    """Plain file name, without a folder."""
    content: str

    def run(self, folder: Folder) -> str:
        content = self.content.encode("utf-8", "replace")
        folder.write(self.name, content)
        return f"{self.name} is written ({len(content)} bytes)."
