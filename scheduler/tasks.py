"""The task file: JSON Lines, one task a line, with the local files that a task may read."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analysis.wording import counted
from db.text import escape_json
from scheduler.errors import ExperimentInvalid
from workers.checks import CheckInvalid, check, runs_programs
from workers.connection_strings import DATABASE_URL

FEW_TASKS = 20
MAX_FILE_BYTES = 50_000_000
# What a prompt puts around a file: its heading and fence.
_FENCE_BYTES = 64


class TaskLine(BaseModel):
    """One line of the task file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=200)
    goal: str = Field(min_length=1)
    category: str = ""
    difficulty: str | float = ""
    files: list[str] = []
    reference: Any = None
    checks: list[dict[str, Any]] = []
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task with its files read."""

    line: TaskLine
    files: Mapping[str, bytes]
    """Name as the task gives it -> content."""

    @property
    def file_hashes(self) -> dict[str, str]:
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()}

    @property
    def prompt_bytes(self) -> int:
        """UTF-8 bytes of the task in a prompt: no fewer than its tokens, since no token is shorter than a byte."""
        files = sum(len(name.encode()) + len(content) + _FENCE_BYTES for name, content in self.files.items())
        return len(self.line.goal.encode()) + files

    def digest(self) -> dict[str, Any]:
        """What makes this task the same task (JSON types)."""
        return self.line.model_dump(mode="json") | {"files": self.file_hashes}


def load_tasks(path: Path, *, allow_commands: bool = False) -> tuple[Sequence[Task], Sequence[str]]:
    """Read a task file; give the tasks and warnings.

    Raises:
        ExperimentInvalid: one line with file and line number.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ExperimentInvalid(
            f"{path}: cannot be read ({error.strerror}). Name a task file in `tasks`."
        ) from None
    except UnicodeDecodeError as error:
        raise ExperimentInvalid(f"{path}: byte {error.start} is no UTF-8. Save the file as UTF-8.") from None
    tasks: list[Task] = []
    first_seen: dict[str, int] = {}
    contents: dict[str, bytes] = {}
    # Not splitlines(): a JSON string may hold U+2028 and the like, which are no ends of lines here.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        task = _task(where, path.parent, line, contents, allow_commands=allow_commands)
        if task.line.id in first_seen:
            raise ExperimentInvalid(
                f"{where}: task id {task.line.id!r} is already that of line {first_seen[task.line.id]}. "
                "Rename one."
            )
        first_seen[task.line.id] = number
        tasks.append(task)
    if not tasks:
        raise ExperimentInvalid(f"{path}: holds no task. Write one JSON object a line with `id` and `goal`.")
    warnings = []
    if len(tasks) < FEW_TASKS:
        warnings.append(
            f"Only {counted(len(tasks), 'task')}: conclusions will be weak; {FEW_TASKS} or more are advised."
        )
    return tasks, warnings


def _task(where: str, folder: Path, line: str, contents: dict[str, bytes], *, allow_commands: bool) -> Task:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExperimentInvalid(f"{where}: not JSON: {error}.") from None
    if not isinstance(raw, dict):
        raise ExperimentInvalid(f"{where}: a task is a JSON object, found {type(raw).__name__}.")
    _refuse_unstorable(where, raw)
    try:
        parsed = TaskLine.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        allowed = (
            f" Allowed: {', '.join(TaskLine.model_fields)}." if first["type"] == "extra_forbidden" else ""
        )
        raise ExperimentInvalid(f"{where}: {field}: {first['msg']}.{allowed}") from None
    for spec in parsed.checks:
        try:
            made = check(spec)
        except CheckInvalid as error:
            raise ExperimentInvalid(f"{where}: checks: {error}") from None
        if runs_programs(made) and not allow_commands:
            raise ExperimentInvalid(
                f"{where}: checks: {made.kind!r} runs a program of yours on every worker. "
                "Say allow_commands = true in the experiment if it may."
            )
    files = {name: _file(where, folder, name, contents) for name in parsed.files}
    _refuse_database_url(where, "goal", parsed.goal)
    for name, content in files.items():
        _refuse_database_url(where, f"file {name!r}", f"{name}\n{content.decode('utf-8', 'replace')}")
    return Task(line=parsed, files=files)


def _refuse_unstorable(where: str, raw: Mapping[str, Any]) -> None:
    """A task is stored as it is or not at all."""
    if escape_json(raw) != raw:
        raise ExperimentInvalid(f"{where}: holds a NUL character, a lone surrogate or U+F8F0. Remove it.")


def _file(where: str, folder: Path, name: str, contents: dict[str, bytes]) -> bytes:
    """A file of the task, read once for all tasks that name it."""
    if name in contents:
        return contents[name]
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ExperimentInvalid(
            f"{where}: files: {name!r} lies outside the task file's folder. Move it there."
        )
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ExperimentInvalid(f"{where}: files: {name!r} is larger than {MAX_FILE_BYTES:,} bytes.")
        contents[name] = path.read_bytes()
    except OSError as error:
        raise ExperimentInvalid(f"{where}: files: {name!r} cannot be read ({error.strerror}).") from None
    return contents[name]


def _refuse_database_url(where: str, what: str, text: str) -> None:
    # A model that is shown a database URL may try to use it, or print it.
    found = DATABASE_URL.search(text)
    if found:
        raise ExperimentInvalid(
            f"{where}: {what} names a database URL ({found.group()}…). "
            "Remove it: tasks work on local files only."
        )
