"""The pages on strategies, agents and checks say what the code does."""

import inspect
import re
from pathlib import Path

import pytest

from workers import checks
from workers.strategies import KINDS
from workers.strategies.prompts import Prompted
from workers.tools import TOOLS

DOCS = Path(__file__).parents[3] / "docs"
STRATEGIES, AGENTS, CHECKS = (
    (DOCS / f"{name}.md").read_text() for name in ("strategies", "agents", "checks")
)
SHARED = {"model", "temperature", "max_tokens", "system", "prompt", "files_max_chars"}


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """First cell without its backticks -> the other cells, of the first table under the heading."""
    section = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    lines = [
        re.split(r" \| | \|$", line.removeprefix("| ")) for line in section.splitlines() if line[:1] == "|"
    ]
    return {cells[0].strip("`"): cells[1:] for cells in lines[2:]}


def test_every_kind_has_its_calls_and_paper() -> None:
    table = rows(STRATEGIES, "Kinds")
    assert list(table) == list(KINDS)
    for kind, (_, calls, tokens, follows, *_) in table.items():
        assert calls == KINDS[kind].calls_formula, kind
        assert tokens
        # The paper stands at the top of the kind's own module too.
        number = re.search(r"arxiv.org/abs/([\d.]+)", follows)
        module = inspect.getsource(inspect.getmodule(KINDS[kind]) or KINDS[kind])
        assert number is None or f"arXiv {number[1]}" in module.split('"""')[1], kind
        assert number is not None or kind in ("single", "command")


def test_every_parameter_is_named() -> None:
    table = rows(STRATEGIES, "Parameters")
    for kind, model in KINDS.items():
        own = set(model.model_fields) - SHARED
        [*named] = re.findall(r"`(\w+)(?: = [^`]*)?`", " ".join(table.get(kind, [])))
        assert own <= set(named), kind


def test_defaults_that_are_named_are_right() -> None:
    for kind, cells in rows(STRATEGIES, "Parameters").items():
        for name, number in re.findall(r"`(\w+) = ([\d.]+)`", " ".join(cells)):
            assert KINDS[kind].model_fields[name].default == float(number), (kind, name)


@pytest.mark.parametrize("kind", KINDS)
def test_files_max_chars_is_of_all_kinds_but_agents(kind: str) -> None:
    assert issubclass(KINDS[kind], Prompted) == (kind not in ("agent", "command"))


def test_every_tool_and_limit_of_the_agent() -> None:
    tools = rows(AGENTS, "Tools")
    assert list(tools) == list(TOOLS)
    for name, (arguments, *_) in tools.items():
        assert re.findall(r"`(\w+)`", arguments) == list(TOOLS[name].model_fields)
    for name, number in re.findall(r"`(\w+)` \((\d+)\)", AGENTS.split("## Limits")[1]):
        assert KINDS["agent"].model_fields[name].default == int(number)


def test_every_check_and_its_parameters() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", CHECKS, flags=re.MULTILINE))
    assert list(table) == list(checks.KINDS)
    for kind, model in checks.KINDS.items():
        section = CHECKS if kind in ("sql", "command", "python") else table[kind]
        for name, field in model.model_fields.items():
            assert f"`{field.alias or name}`" in section or f'"{name}":' in section, (kind, name)
