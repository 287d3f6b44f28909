"""What a simulated model answers, and how many tokens that takes.

The probability of a right answer is a logistic curve of (skill + effort - difficulty), as in item response
theory: P = 1 / (1 + exp(-STEEPNESS * (skill + effort - difficulty))). A wrong answer is one of several, the
k-th most likely in proportion to 1/sqrt(k), so that the right one tends to win a vote among samples.
"""

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from paretoken.simulator import agents
from paretoken.simulator.models import SimulatedModel
from paretoken.simulator.readers import (
    EFFORT_OF_CHECKING,
    Prompt,
    is_right,
    judgement,
    take_apart,
    useless_judgement,
)
from paretoken.simulator.tasks import SimulatedTask, TaskBook
from paretoken.simulator.wire import ChatRequest

STEEPNESS = 6.0
EFFORT_OF_STEPS = 0.15
EFFORT_OF_TOOLS = 0.3
ANSWER_MARK = "Answer:"
_ASKS_FOR_STEPS = ("step by step", "step-by-step", "chain of thought", "chain-of-thought")
_UNKNOWN = "This is simulated text: the simulated gateway knows no task with this goal."
_STEPS = (
    "first restate what is asked and which parts of the input matter.",
    "go through the input once and note the values that are needed here.",
    "work out the intermediate result from these values, one after the other.",
    "compare the intermediate result with the input, in case a row was skipped.",
    "check the form in which the result is wanted before writing it down.",
)


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One answer, before a token limit cuts it."""

    content: str
    tool_calls: Sequence[Mapping[str, Any]] = ()
    """In OpenAI's shape."""
    reasoning_tokens: int = 0
    """Hidden ones."""
    task_id: str | None = None
    right: bool | None = None
    """Whether the reference was given; `None` where the task is unknown."""
    slowness: float = 1.0
    """Factor of the latency, with median 1."""

    @property
    def text(self) -> str:
        """All that tokens are spent on, besides hidden reasoning."""
        return self.content + (json.dumps(self.tool_calls) if self.tool_calls else "")


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Tokens of one request, with OpenAI's meaning: cached is part of input, reasoning part of output."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def usage(self) -> dict[str, object]:
        """The `usage` object of a response."""
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.total_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_input_tokens},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
        }


def fingerprint(request: ChatRequest) -> bytes:
    """Equal for requests that ask the same thing, whether streamed or not and whatever their `seed`."""
    asked = request.model_dump(exclude={"stream", "stream_options", "seed"})
    return blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=16).digest()


def answer(
    request: ChatRequest, *, model: SimulatedModel, tasks: TaskBook, draw: str, latency_sigma: float
) -> Answered:
    """The answer to `request`. The same `draw` gives the same answer to the same request."""
    rng = random.Random(draw)
    slowness = math.exp(latency_sigma * rng.gauss(0, 1))
    text = request.text
    task = tasks.find(text)
    tool_calls: Sequence[Mapping[str, Any]] = ()
    if model.manner is not None:
        prompt = take_apart(text, task.goal if task else "")
        content, right = useless_judgement(model.manner, prompt, rng), None
    elif task is None:
        content, right = _unknown(request), None
    elif agents.protocol(request):
        content, tool_calls, right = _act(request, model, task, rng)
    else:
        content, right = _write(request, model, task, rng)
    return Answered(
        content=content,
        tool_calls=tool_calls,
        reasoning_tokens=_reasoning(model, task.hardness if task else 0.5, rng),
        task_id=task.id if task else None,
        right=right,
        slowness=slowness,
    )


def _unknown(request: ChatRequest) -> str:
    if agents.protocol(request) == "json":
        return json.dumps({"plan": "", "actions": [], "result": _UNKNOWN})
    return json.dumps({"answer": _UNKNOWN}) if request.wants_json else _UNKNOWN


def _act(
    request: ChatRequest, model: SimulatedModel, task: SimulatedTask, rng: random.Random
) -> tuple[str, Sequence[Mapping[str, Any]], bool | None]:
    """The next message of an agent: content, tool calls, whether it holds the reference."""
    given = agents.results(request)
    action = agents.next_action(task, given)
    in_json = agents.protocol(request) == "json"
    if action is None:
        helped = EFFORT_OF_TOOLS * sum("Error:" not in text for text in given) / 3
        right = rng.random() < chance(model, task, effort=helped)
        content = task.right_answer if right else _wrong(model, task, rng)
        if in_json:
            content = json.dumps({"plan": "Answer.", "actions": [], "result": content}, ensure_ascii=False)
        return content, (), right
    if in_json:
        actions = [{"tool": action.tool, "arguments": action.arguments}]
        return json.dumps({"plan": f"Use {action.tool}.", "actions": actions, "result": None}), (), None
    function = {"name": action.tool, "arguments": json.dumps(action.arguments)}
    return "", ({"id": f"call_{rng.getrandbits(48):012x}", "type": "function", "function": function},), None


def _write(
    request: ChatRequest, model: SimulatedModel, task: SimulatedTask, rng: random.Random
) -> tuple[str, bool | None]:
    """A text, and whether its answer is the reference; a judgement of other answers is neither right nor wrong."""
    prompt = take_apart(request.text, task.goal)
    steps = any(phrase in prompt.frame.lower() for phrase in _ASKS_FOR_STEPS)
    checking = chance(model, task, effort=EFFORT_OF_CHECKING)
    right = None
    content = judgement(prompt, task, checking, rng)
    if content is None:
        content, right = _solve(prompt, model, task, steps=steps, checking=checking, rng=rng)
        if ANSWER_MARK in prompt.frame and not request.wants_json:
            content = f"{ANSWER_MARK}\n{content}"
    # JSON mode leaves no room for anything else.
    return (
        f"{_steps(model, task, rng)}\n\n{content}" if steps and not request.wants_json else content
    ), right


def _solve(
    prompt: Prompt,
    model: SimulatedModel,
    task: SimulatedTask,
    *,
    steps: bool,
    checking: float,
    rng: random.Random,
) -> tuple[str, bool]:
    """An answer. Among answers of others a right one is recognised, and a wrong one may be taken over."""
    seen = any(is_right(answer, task) for answer in prompt.shown)
    p_right = checking if seen else chance(model, task, effort=EFFORT_OF_STEPS if steps else 0.0)
    if rng.random() < p_right:
        return task.right_answer, True
    wrong = [answer for answer in prompt.shown if answer in task.mistakes]
    return (rng.choice(wrong) if wrong else _wrong(model, task, rng)), False


def chance(model: SimulatedModel, task: SimulatedTask, *, effort: float) -> float:
    """Probability of a right answer."""
    margin = model.skill + effort - task.hardness
    return 1 / (1 + math.exp(-STEEPNESS * margin))


def _wrong(model: SimulatedModel, task: SimulatedTask, rng: random.Random) -> str:
    candidates = list(task.mistakes)
    random.Random(f"{model.name} {task.id}").shuffle(candidates)  # each model has its own usual mistakes
    return rng.choices(candidates, [rank**-0.5 for rank in range(1, len(candidates) + 1)])[0]


def _steps(model: SimulatedModel, task: SimulatedTask, rng: random.Random) -> str:
    """Written reasoning."""
    count = max(1, round(model.verbosity * (3 + 6 * task.hardness) * rng.uniform(0.8, 1.2)))
    return "\n".join(f"Step {step}: {rng.choice(_STEPS)}" for step in range(1, count + 1))


def _reasoning(model: SimulatedModel, hardness: float, rng: random.Random) -> int:
    if not model.reasons:
        return 0
    return max(1, round(100 * model.verbosity * (0.5 + hardness) * rng.uniform(0.8, 1.2)))


def spend(request: ChatRequest, answered: Answered, *, asked_before: bool) -> Spent:
    """Count tokens, about four characters each, and stop at the request's limit.

    As at OpenAI, a prompt that was seen before is cached in steps of 128 tokens from 1,024 on.
    """
    input_tokens = sum(tokens_of(message.text) + 4 for message in request.messages)
    wanted = answered.reasoning_tokens + tokens_of(answered.text)
    output_tokens = min(wanted, request.output_limit or wanted)
    cached = input_tokens // 128 * 128 if asked_before and input_tokens >= 1024 else 0
    return Spent(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_input_tokens=cached,
        reasoning_tokens=min(answered.reasoning_tokens, output_tokens),
    )


def cut(answered: Answered, spent: Spent) -> tuple[str, str]:
    """The content that fits into the tokens spent, and its `finish_reason`."""
    room = spent.output_tokens - spent.reasoning_tokens
    if tokens_of(answered.text) <= room:
        return answered.content, "tool_calls" if answered.tool_calls else "stop"
    return answered.content[: room * 4], "length"


def tokens_of(text: str) -> int:
    """About four characters a token, at least one."""
    return max(1, math.ceil(len(text) / 4))
