"""How a simulated model behaves as an agent: it lists the files, describes a CSV, queries it, and then answers.

What it asks next is read from what its tools gave before, so that tools which fail change what it does.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paretoken.simulator.tasks import SimulatedTask
from paretoken.simulator.wire import ChatRequest

_LISTED = re.compile(r"([^\n`]+\.csv) \(\d+ bytes\)")
_TABLE = re.compile(r"\btable (\w+) in SQL")


@dataclass(frozen=True, kw_only=True)
class Action:
    """One tool that the model wants to be run."""

    tool: str
    arguments: Mapping[str, Any]


def protocol(request: ChatRequest) -> str | None:
    """`tools`, `json` (the prompt asks for an object with `actions`), or `None`: no agent."""
    if request.tools:
        return "tools"
    return "json" if request.wants_json and '"actions"' in request.messages[0].text else None


def results(request: ChatRequest) -> Sequence[str]:
    """What the tools gave so far, a text for each step."""
    if request.tools:
        return [message.text for message in request.messages if message.role == "tool"]
    return [message.text for message in request.messages if message.role == "user"][1:]


def next_action(task: SimulatedTask, given: Sequence[str]) -> Action | None:
    """The next action, or `None` when it is time to answer."""
    if not given:
        return Action(tool="list_files", arguments={})
    if len(given) == 1:
        listed = _LISTED.findall(given[0])
        file = next((name for name in listed if name in task.goal), listed[0] if listed else None)
        return Action(tool="describe_csv", arguments={"name": file}) if file else None
    if len(given) == 2 and (table := _TABLE.search(given[1])):
        sql = f"SELECT COUNT(*) AS n FROM {table[1]}"  # noqa: S608  for the tool, which only reads
        return Action(tool="query_csv", arguments={"sql": sql})
    return None
