"""The task file whose answers the simulator knows."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from paretoken.errors import InputError
from paretoken.simulator.mistakes import wrong_answers
from workers.checks import Check, CheckContext, CheckInvalid, check, run_checks

NO_ANSWER = "I cannot tell."

DIFFICULTY = {"easy": 0.2, "medium": 0.5, "hard": 0.8}


class SimulatedTask(BaseModel):
    """The fields of a task that matter here; a task file may hold others."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    goal: str = Field(pattern=r"\S")
    difficulty: Literal["easy", "medium", "hard"] | float | None = None
    """A word, or a number from 0 (anyone solves it) to 1; `medium` where it is missing."""
    reference: JsonValue = None
    """A whole right answer: text, or JSON that is answered as JSON text. Without one the task is unknown."""
    files: list[str] = []
    checks: list[dict[str, Any]] = []
    contents: Mapping[str, bytes] = {}
    """Of its files."""

    @property
    def hardness(self) -> float:
        """Difficulty as a number, 0 to 1."""
        if isinstance(self.difficulty, float):
            return min(max(self.difficulty, 0.0), 1.0)
        return DIFFICULTY[self.difficulty or "medium"]

    @property
    def right_answer(self) -> str:
        """The reference as the text of an answer."""
        if isinstance(self.reference, str):
            return self.reference
        return json.dumps(self.reference, ensure_ascii=False)

    @cached_property
    def mistakes(self) -> Sequence[str]:
        """Answers that are wrong: those that the task's checks would pass are none."""
        context = CheckContext(files=self.contents)
        found = wrong_answers(self.right_answer)
        wrong = [answer for answer in found if not run_checks(self._checks, answer, context)[0]]
        return wrong or [NO_ANSWER]

    @cached_property
    def _checks(self) -> Sequence[Check]:
        return [check(spec) for spec in self.checks]


class TaskBook:
    """Finds the task that a prompt is about."""

    def __init__(self, tasks: Sequence[SimulatedTask] = ()) -> None:
        # The longest goal first: one goal may be the beginning of another.
        self._tasks = sorted(tasks, key=lambda task: len(task.goal), reverse=True)
        self.find = lru_cache(maxsize=4096)(self._find)

    def _find(self, text: str) -> SimulatedTask | None:
        return next((task for task in self._tasks if task.goal.strip() in text), None)


def read_tasks(path: Path) -> TaskBook:
    """Read a JSON Lines task file; tasks without a reference are left out. Raises `InputError`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The task file {path} cannot be read ({error}): name a JSON Lines file.") from error
    tasks = [_read_task(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    contents = {name: _content(path.parent / name) for task in tasks for name in task.files}
    return TaskBook(
        [
            task.model_copy(update={"contents": {name: contents[name] for name in task.files}})
            for task in tasks
            if task.reference is not None
        ]
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"The task's file {path} cannot be read ({error}): put it there.") from error


def _read_task(path: Path, number: int, line: str) -> SimulatedTask:
    try:
        task = SimulatedTask.model_validate_json(line)
        for spec in task.checks:
            check(spec)
    except CheckInvalid as error:
        raise InputError(f"{path}, line {number}: checks: {error}. Correct this line.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the line"
        raise InputError(f"{path}, line {number}: {where}: {first['msg']}. Correct this line.") from error
    return task
