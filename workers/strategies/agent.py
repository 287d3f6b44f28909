"""An agent that works on the task's files with tools, step by step (Yao et al. 2022, arXiv 2210.03629)."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from workers.strategies.base import Answer, Ended, ModelCall, Reply, Strategy, TaskView, ToolStep
from workers.strategies.prompts import TaskPrompt, fenced, fill, template
from workers.tools import TOOLS, ToolCall, ToolResult, described

MOST_CALLS = 16
"""Tool calls that are run in one step."""
JSON_KEYS = ("plan", "actions", "result")

SYSTEM = """You solve tasks about local files with the tools that you are given. Look at the files before you \
conclude anything. There is no network and no other file. When you are done, answer with the final answer alone, in \
the format that is asked for, and call no tool."""

JSON_SYSTEM = """You solve tasks about local files, step by step. Every message of yours is one JSON object and \
nothing else:

{"plan": "what you do next, in a sentence", "actions": [{"tool": "name", "arguments": {}}], "result": null}

Each action is run, and what it gives is sent to you. When you are done, leave `actions` empty and put the final \
answer, in the format that is asked for, into `result`. There is no network and no other file. These are the tools:

{tools}"""

PROMPT = """{goal}

{files}"""


def _known(names: Sequence[str]) -> Sequence[str]:
    if unknown := [name for name in names if name not in TOOLS]:
        raise ValueError(f"unknown tool {unknown[0]!r}; tools: {', '.join(TOOLS)}")
    return names


class Agent(Strategy):
    """A loop of model calls and tools on the task's files, until the model answers or a limit is reached."""

    kind: ClassVar[str] = "agent"
    quick: ClassVar[bool] = False
    calls_formula: ClassVar[str] = "1 to max_steps"

    protocol: Literal["tools", "json"] = "tools"
    """`tools` is OpenAI tool calling; `json` is for models without it: each reply is one JSON object."""
    tools: Annotated[Sequence[str], AfterValidator(_known)] = tuple(TOOLS)
    max_steps: int = Field(default=10, ge=1, le=200)
    """Model calls; an agent that has not answered by then has failed."""
    max_result_chars: int = Field(default=8000, ge=100, le=200_000)
    """Of one tool's result; what is longer is cut, and said to be."""
    wall_time_s: float = Field(default=600, gt=0)
    """For all its model calls together; waiting for capacity does not count."""
    system: str = SYSTEM
    """System prompt of the protocol `tools`; empty sends none."""
    json_system: Annotated[str, template("tools", needs="tools")] = JSON_SYSTEM
    """System prompt of the protocol `json`."""
    prompt: TaskPrompt = PROMPT

    @property
    def opening_samples(self) -> int:
        return 1

    @property
    def calls(self) -> tuple[int, int]:
        return 1, self.max_steps

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        listing = "\n".join(["Files:", *(f"- {name}" for name in task.files)]) if task.files else ""
        text = fill(self.prompt, {"goal": task.goal, "files": listing})
        system = self.system
        if self.protocol == "json":
            tools = json.dumps([tool["function"] for tool in described(self.tools)], indent=1)
            system = fill(self.json_system, {"tools": tools})
        messages = [{"role": "system", "content": system}] if system else []
        return [self._ask([*messages, {"role": "user", "content": text}], stage=1)]

    def proceed(
        self, task: TaskView, replies: Sequence[Reply]
    ) -> Sequence[ModelCall] | ToolStep | Answer | Ended:
        last = replies[-1]
        calls, answer = _said_in_json(last) if self.protocol == "json" else _said(last)
        if answer is not None:
            return Answer(text=answer, detail={"steps": last.round})
        if last.round >= self.max_steps:
            return Ended(reason="steps", message=f"no answer after all {self.max_steps} steps")
        spent_s = sum(reply.latency_ms or 0 for reply in replies) / 1000
        if spent_s > self.wall_time_s:
            return Ended(
                reason="wall_time", message=f"no answer after {spent_s:.1f} s of {self.wall_time_s:g}"
            )
        return ToolStep(calls=calls[:MOST_CALLS], allowed=self.tools, most_chars=self.max_result_chars)

    def after_tools(
        self, task: TaskView, replies: Sequence[Reply], results: Sequence[ToolResult]
    ) -> Sequence[ModelCall]:
        last = replies[-1]
        asked = last.messages or self.opening(task)[0].messages
        told = _told_in_json(last, results) if self.protocol == "json" else _told(last, results)
        return [self._ask([*asked, *told], stage=last.round + 1)]

    def _ask(self, messages: Sequence[Mapping[str, Any]], *, stage: int) -> ModelCall:
        in_json = self.protocol == "json"
        return ModelCall(
            round=stage,
            sample=1,
            messages=messages,
            model=self.model,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            response_format="json" if in_json else "text",
            json_keys=JSON_KEYS if in_json else (),
            extra={} if in_json else {"tools": described(self.tools)},
        )


# The protocol `tools`.


def _said(reply: Reply) -> tuple[Sequence[ToolCall], str | None]:
    """The tool calls of a reply, or the answer."""
    calls = [
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in _wire_calls(reply)
    ]
    return calls, None if calls else reply.content


def _wire_calls(reply: Reply) -> Sequence[Mapping[str, Any]]:
    """A reply's tool calls as they are sent back, with whatever else the gateway put in; an id for those without."""
    return [
        {**call, "id": _text(call.get("id")) or f"call_{reply.round}_{number}", "type": "function"}
        | {"function": _function(call.get("function"))}
        for number, call in enumerate(reply.tool_calls, start=1)
    ]


def _function(value: object) -> Mapping[str, Any]:
    given = value if isinstance(value, Mapping) else {}
    arguments = given.get("arguments")
    # Some gateways give the object itself instead of its text.
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {**given, "name": _text(given.get("name")), "arguments": text}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _told(reply: Reply, results: Sequence[ToolResult]) -> Sequence[Mapping[str, Any]]:
    """The model's own message, and a message for each of its tool calls."""
    texts = {result.id: result.text for result in results}
    calls = _wire_calls(reply)
    too_many = f"Error: not run, at most {MOST_CALLS} calls a message are"
    return [
        {"role": "assistant", "content": reply.content or None, "tool_calls": calls},
        *(
            {"role": "tool", "tool_call_id": call["id"], "content": texts.get(call["id"], too_many)}
            for call in calls
        ),
    ]


# The protocol `json`.


def _said_in_json(reply: Reply) -> tuple[Sequence[ToolCall], str | None]:
    said = _object(reply.content)
    result, actions = said.get("result"), said.get("actions")
    given = actions if isinstance(actions, list) else []
    calls = [
        ToolCall(
            id=str(number),
            name=_text(action.get("tool")),
            arguments=json.dumps(action.get("arguments") or {}),
        )
        for number, action in enumerate(given, start=1)
        if isinstance(action, Mapping)
    ]
    if calls or result is None:
        return calls, None
    return (), result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _object(text: str) -> Mapping[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):  # a gateway that answers a JSON request with tool calls
        said = None
    return said if isinstance(said, dict) else {}


def _told_in_json(reply: Reply, results: Sequence[ToolResult]) -> Sequence[Mapping[str, Any]]:
    parts = [f"Action {result.id} ({result.name}) gave:\n{fenced(result.text)}" for result in results]
    none = "Error: there is neither a result nor an action that can be run. Give one of them."
    return [
        {"role": "assistant", "content": reply.content},
        {"role": "user", "content": "\n\n".join(parts) or none},
    ]
