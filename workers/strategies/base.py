"""What a strategy is: pure data in; model calls, tool calls or an answer out.

A strategy never touches the queue, the database or the network, and it never sees a task's checks or
reference: it is given a `TaskView`, which has neither. Tools are run for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from workers.kinds import KindInvalid
from workers.tools import ToolCall, ToolResult


class StrategyInvalid(KindInvalid):
    """An experiment asks for a strategy that does not exist, or gives it a wrong parameter."""

    noun = "strategy"


@dataclass(frozen=True, kw_only=True)
class TaskView:
    """The part of a task that a strategy may see."""

    task_id: str
    goal: str
    category: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """Name of each local file the task may read -> its text."""


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """One model call that a trial needs. It becomes one job."""

    round: int
    """Stage, from 1. Calls of one round do not depend on each other."""
    sample: int
    """Slot in the stage, from 1."""
    messages: Sequence[Mapping[str, Any]]
    """Chat messages as the gateway takes them: `role` and `content`."""
    model: str
    max_tokens: int
    temperature: float | None = None
    response_format: Literal["text", "json"] = "text"
    """`json` also makes output that is no JSON object an `invalid_output`, which is retried once."""
    json_keys: Sequence[str] = ()
    """Keys that the JSON object must have."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, e.g. `tools`."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back for one call of the trial: the content of the attempt that is used."""

    round: int
    sample: int
    content: str
    tool_calls: Sequence[Mapping[str, Any]] = ()
    """As the gateway gave them: `id`, `type`, `function` with `name` and `arguments`."""
    latency_ms: int | None = None
    total_tokens: int | None = None
    """What the used attempt took, all its turns together."""
    messages: Sequence[Mapping[str, Any]] = ()
    """What the call was asked; only of the last round, and empty in round 1, which `opening` makes."""


@dataclass(frozen=True, kw_only=True)
class ToolStep:
    """Tools to run on the trial's own files, before `after_tools` says what follows."""

    calls: Sequence[ToolCall]
    allowed: Sequence[str]
    """Names of the tools that may be used."""
    most_chars: int
    """Of each result; what is longer is cut, and said to be."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A limit of the strategy's own was reached: the trial fails, and is not run again."""

    reason: Literal["steps", "wall_time", "tokens"]
    message: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A trial's final answer, with whatever the strategy wants kept about how it was found (JSON types)."""

    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)


class Strategy(BaseModel, ABC):
    """Base of every kind. Fields are the parameters that an experiment may set; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: ClassVar[str]
    quick: ClassVar[bool] = True
    """Its steps compute a moment at the most; one that has tools run takes longer."""

    model: str
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int = Field(default=1200, ge=1)
    system: str = ""
    """System prompt; empty sends none."""

    calls_formula: ClassVar[str]
    """Number of calls of a trial, in words, from its parameters."""

    @property
    def models(self) -> frozenset[str]:
        """Every model that one of its roles calls."""
        return frozenset({self.model})

    @property
    @abstractmethod
    def opening_samples(self) -> int:
        """Number of calls in round 1: known before any task is seen, so that planning stays set-based."""

    @property
    def calls(self) -> tuple[int, int]:
        """Fewest and most calls that a trial can take, failed attempts not counted."""
        return self.opening_samples, self.opening_samples

    def deadline_s(self, timeout_s: float) -> float:
        """Of one call, where a request to the gateway has `timeout_s` seconds."""
        return timeout_s

    @abstractmethod
    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        """The calls of round 1, `opening_samples` of them, samples 1, 2, …"""

    @abstractmethod
    def proceed(
        self, task: TaskView, replies: Sequence[Reply]
    ) -> Sequence[ModelCall] | ToolStep | Answer | Ended:
        """The next round's calls, tools to run before them, or the end, once every call so far has come back.

        `replies` holds all rounds, ordered by round and sample. The same replies give the same result.
        """

    def after_tools(
        self, task: TaskView, replies: Sequence[Reply], results: Sequence[ToolResult]
    ) -> Sequence[ModelCall]:
        """The next round's calls, once the tools of a `ToolStep` have been run; of the kinds that ask for some."""
        raise NotImplementedError(f"{self.kind} asks for no tools")
