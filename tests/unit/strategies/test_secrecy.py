"""A strategy cannot see a task's checks or its reference: neither by what it is given, nor by what it imports."""

import ast
import inspect
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest

from workers.strategies import KINDS, Reply, Strategy, TaskView, ToolStep, strategy
from workers.strategies import base as strategies_base
from workers.tools import Folder, ToolCall, ToolResult

FOLDER = Path(strategies_base.__file__).parent
GIVEN = {"str", "int", "NoneType", "Sequence", "Mapping", "Any", "TaskView", "Reply", "ToolResult"}
PARAMS: dict[str, dict[str, Any]] = {"self_consistency": {"k": 2}}


def names(annotation: Any) -> set[str]:
    """Names of all types in an annotation."""
    inner = get_args(annotation)
    # `int | None` has no name of its own.
    own = set() if isinstance(annotation, UnionType) else {annotation.__name__}
    return own.union(*map(names, inner))


@pytest.mark.parametrize("method", ["opening", "proceed", "after_tools"])
def test_what_a_strategy_is_given_has_neither_checks_nor_reference(method: str) -> None:
    hints = get_type_hints(getattr(Strategy, method))
    hints.pop("return")
    assert set().union(*map(names, hints.values())) <= GIVEN


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (TaskView, {"task_id", "goal", "category", "files"}),
        (Reply, {"round", "sample", "content", "tool_calls", "latency_ms", "total_tokens", "messages"}),
        (ToolResult, {"id", "name", "text"}),
    ],
)
def test_fields_of_what_is_given(given: Any, fields: set[str]) -> None:
    hints = get_type_hints(given)
    assert hints.keys() == fields
    assert set().union(*map(names, hints.values())) <= GIVEN


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_no_strategy_imports_what_knows_tasks_and_checks(path: Path) -> None:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
    ours = {
        name
        for name in modules
        if name.split(".")[0] in ("workers", "db", "scheduler", "paretoken", "analysis")
    }
    assert all(
        name.startswith(
            ("workers.strategies", "workers.tools", "workers.kinds", "workers.fences", "workers.commands")
        )
        or name == "workers"
        for name in ours
    ), ours


@pytest.mark.parametrize("kind", KINDS)
def test_no_prompt_takes_a_placeholder_for_them(kind: str) -> None:
    built = KINDS[kind]
    for name, field in built.model_fields.items():
        if name == "prompt" or name.endswith(("_prompt", "_system")):
            for placeholder in ("reference", "checks"):
                with pytest.raises(ValueError, match=f"unknown placeholder {{{placeholder}}}"):
                    strategy(
                        kind,
                        {"model": "m", **PARAMS.get(kind, {}), name: f"{field.default}{{{placeholder}}}"},
                    )


def test_the_folder_of_an_agent_holds_the_tasks_files_and_its_own() -> None:
    folder = Folder(task_files={"a.csv": b"x\n"}, written={"b.txt": b""})
    assert set(inspect.signature(Folder).parameters) == {"task_files", "written"}
    assert set(folder.files) == {"a.csv", "b.txt"}
    step = ToolStep(calls=[ToolCall(id="1", name="x", arguments="{}")], allowed=[], most_chars=1)
    assert set(vars(step)) == {"calls", "allowed", "most_chars"}
