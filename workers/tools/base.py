"""What a tool is: something an agent may do with the files of its trial, and with nothing else.

A trial's folder is a table of names and contents in memory. No tool takes a path of the machine, so there is none that
could lead out of the folder; whatever could be made endless runs in the sandbox.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from workers.kinds import KindInvalid

MAX_FILES = 20
MAX_FILE_BYTES = 1_000_000
MAX_WRITTEN_BYTES = 5_000_000
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9 ._-]{0,98}[A-Za-z0-9_-])?")


class ToolInvalid(KindInvalid):
    """A model calls a tool that does not exist, or with wrong arguments."""

    noun = "tool"


class ToolRefused(Exception):
    """The tool does not do what it was asked; the message is for the model."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call as the model wrote it."""

    id: str
    """What the result is matched by."""
    name: str
    arguments: str
    """JSON text of one object, unless the model failed to write it."""


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What a call gives back to the model."""

    id: str
    name: str
    text: str


class Folder:
    """The files of a trial: those of its task, which nobody changes, and those that the trial has written."""

    def __init__(
        self, *, task_files: Mapping[str, bytes], written: Mapping[str, bytes] | None = None
    ) -> None:
        self._task_files = task_files
        # Its files and folders, on a disk that does not tell cases apart too.
        self._taken = {part.casefold() for name in task_files for part in PurePosixPath(name).parts}
        self.written = dict(written or {})
        self.changed: set[str] = set()
        """Names of the files that were written since the folder was laid out."""

    @property
    def files(self) -> Mapping[str, bytes]:
        return {**self._task_files, **self.written}

    def read(self, name: str) -> bytes:
        """Raises `ToolRefused` for a name that is not in the folder."""
        files = self.files
        if name not in files:
            raise ToolRefused(f"there is no file {name!r}; there are: {', '.join(files) or 'none'}")
        return files[name]

    def write(self, name: str, content: bytes) -> None:
        """Raises `ToolRefused` for anything but a plain name, a file of the task, and too much."""
        if not _PLAIN_NAME.fullmatch(name):
            raise ToolRefused(
                f"{name[:100]!r} is no plain file name: up to 100 letters, digits, blanks, '.', '_' and '-' of "
                "ASCII, no folder"
            )
        if name.casefold() in self._taken:
            raise ToolRefused(f"{name!r} belongs to the task and stays as it is; take another name")
        others = {other: kept for other, kept in self.written.items() if other != name}
        if len(content) > MAX_FILE_BYTES:
            raise ToolRefused(f"the content has {len(content):,} bytes; a file may have {MAX_FILE_BYTES:,}")
        if len(others) >= MAX_FILES:
            raise ToolRefused(f"there are {len(others)} files already, and no more are allowed")
        if len(content) + sum(map(len, others.values())) > MAX_WRITTEN_BYTES:
            raise ToolRefused(f"all files together may have {MAX_WRITTEN_BYTES:,} bytes")
        self.written = {**others, name: content}
        self.changed.add(name)


class Tool(BaseModel, ABC):
    """Base of every tool. Fields are its arguments; the docstring and theirs are what a model is told."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: ClassVar[str]
    """Its name for the model."""

    @abstractmethod
    def run(self, folder: Folder) -> str:
        """The result as text. Raises `ToolRefused` with what the model should do instead."""
