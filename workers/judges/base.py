"""What a judge is: pure data in; the calls of a judging, and verdicts from their replies, out.

A judge is shown a task and the answers of several trials, and nothing of who gave them. It never touches the queue,
the database or the network, and like a strategy it is given a `TaskView`: neither checks nor reference.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from workers.kinds import KindInvalid
from workers.strategies import ModelCall, TaskView
from workers.strategies.prompts import files_text, fill

FRAME_BYTES = 64
"""What a prompt puts around one answer: its heading and fence."""


class JudgeInvalid(KindInvalid):
    """An experiment asks for a judge that does not exist, or gives it a wrong parameter."""

    noun = "judge"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one call of a judging said."""

    shown: Sequence[int]
    """Places of the answers (from 0) in the order in which they were shown."""
    scores: Sequence[float] | None
    """Of each answer shown, higher is better; None where the reply says nothing that can be read, or never came."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One answer against another, by their places."""

    winner: int
    loser: int
    tie: bool = False
    """Then the two have no order."""
    items: int = 2
    """How many were ranked together."""


class Judge(BaseModel, ABC):
    """Base of every kind. Fields are the parameters that an experiment may set; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: ClassVar[str]
    calls_formula: ClassVar[str]
    """Number of calls, in words, of a task and repeat with m answers."""
    by_pairs: ClassVar[bool] = False
    """A judging is about two answers; else about all of a task and repeat."""

    model: str
    temperature: float | None = Field(default=0, ge=0, le=2)
    max_tokens: int = Field(default=1200, ge=1)
    system: str = ""
    """System prompt; empty sends none."""
    files_max_chars: int = Field(default=40_000, ge=0)
    """How many characters of the task's files a prompt may hold in all; the rest is cut, and said to be."""
    prompt: str

    @property
    @abstractmethod
    def calls(self) -> int | None:
        """Calls of one judging; None where each answer has its own."""

    @abstractmethod
    def showings(self, answers: int, draw: str) -> Sequence[Sequence[int]]:
        """For each call the places of the answers to show, in their order. The same `draw` gives the same ones."""

    @abstractmethod
    def listed(self, answers: Sequence[str]) -> str:
        """The answers as the prompt shows them."""

    @abstractmethod
    def scores(self, reply: str, shown: int) -> Sequence[float] | None:
        """What a reply gives to each of the answers it was shown, higher is better; None where it says nothing."""

    def ask(self, task: TaskView, answers: Sequence[str]) -> ModelCall:
        """The call that shows these answers in this order."""
        files = files_text(task.files, self.files_max_chars)
        text = fill(self.prompt, {"goal": task.goal, "files": files, "answers": self.listed(answers)})
        system = [{"role": "system", "content": self.system}] if self.system else []
        return ModelCall(
            round=1,
            sample=1,
            messages=[*system, {"role": "user", "content": text}],
            model=self.model,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
        )

    def verdicts(self, readings: Sequence[Reading]) -> Sequence[Verdict]:
        """What the readings of a judging amount to; nothing where they say nothing."""
        return [
            verdict
            for reading in readings
            if reading.scores is not None
            for verdict in ranked(dict(zip(reading.shown, reading.scores, strict=True)))
        ]


def ranked(scores: dict[int, float]) -> Sequence[Verdict]:
    """A ranking as all its pairs."""
    return [
        Verdict(
            winner=one if scores[one] >= scores[other] else other,
            loser=other if scores[one] >= scores[other] else one,
            tie=scores[one] == scores[other],
            items=len(scores),
        )
        for one, other in combinations(sorted(scores), 2)
    ]
