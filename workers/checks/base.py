"""What a check is: a rule that an answer keeps or breaks, decided by local code alone."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from workers.kinds import KindInvalid


class CheckInvalid(KindInvalid):
    """A task asks for a check that does not exist, or gives it a wrong parameter."""

    noun = "check"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check found. `seen` is what the person who audits the trial wants to see (JSON types)."""

    passed: bool
    message: str
    """One plain line: what was asked and what was seen."""
    seen: Any = None


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """What a check may look at besides the answer."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """Name -> content of the task's own files."""
    written: Mapping[str, bytes] = field(default_factory=dict)
    """Name -> content of what the trial has written in its folder."""
    allow_commands: bool = False
    """Whether the experiment allows checks that run the user's own programs."""


class Check(BaseModel, ABC):
    """Base of every kind. Fields are what a task file may set; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: ClassVar[str]
    quick: ClassVar[bool] = True
    """It computes a moment at the most, whatever the answer holds; the others run beside each other."""

    @abstractmethod
    def run(self, answer: str, context: CheckContext) -> Checked:
        """Never raises for anything an answer may hold."""
