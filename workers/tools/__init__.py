"""Tools of the agent by name. A new tool is one `Tool` class and its place in `TOOLS`."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from workers.kinds import build
from workers.tools.base import Folder, Tool, ToolCall, ToolInvalid, ToolRefused, ToolResult
from workers.tools.files import ListFiles, ReadFile, WriteResult
from workers.tools.tables import DescribeCsv, QueryCsv

__all__ = ["TOOLS", "Folder", "Tool", "ToolCall", "ToolResult", "described", "run_tool"]

TOOLS: Mapping[str, type[Tool]] = MappingProxyType(
    {tool.kind: tool for tool in (ListFiles, ReadFile, DescribeCsv, QueryCsv, WriteResult)}
)


def run_tool(call: ToolCall, folder: Folder, *, allowed: Sequence[str], most_chars: int) -> ToolResult:
    """The result of a call, cut to so many characters; whatever is wrong with the call is said to the model."""
    try:
        text = _tool(call, allowed).run(folder)
    except (ToolInvalid, ToolRefused) as error:
        text = f"Error: {error}"
    if len(text) > most_chars:
        text = f"{text[:most_chars]}\n[cut here: {most_chars:,} of {len(text):,} characters are shown]"
    return ToolResult(id=call.id, name=call.name, text=text)


def _tool(call: ToolCall, allowed: Sequence[str]) -> Tool:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise ToolInvalid(f"the arguments are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ToolInvalid("the arguments are no JSON object")
    return build({name: TOOLS[name] for name in allowed}, call.name, arguments, ToolInvalid)


def described(names: Sequence[str]) -> list[dict[str, Any]]:
    """The tools as a chat completion request takes them, and as a prompt can show them."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": " ".join((TOOLS[name].__doc__ or "").split()),
                "parameters": _schema(TOOLS[name]),
            },
        }
        for name in names
    ]


def _schema(tool: type[Tool]) -> dict[str, Any]:
    """JSON Schema of the arguments, without the names that pydantic makes up."""
    schema = tool.model_json_schema()
    properties = {
        name: {key: value for key, value in described.items() if key != "title"}
        for name, described in schema.get("properties", {}).items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }
