"""Checks by kind. A new kind is one `Check` class and its line in `KINDS`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from workers.checks.base import Check, CheckContext, Checked, CheckInvalid
from workers.checks.documents import Json, JsonFields, JsonSchema
from workers.checks.folder import FileExists, FileJson, NoConnectionString, PathsExist
from workers.checks.number import Number
from workers.checks.outcome import run_checks
from workers.checks.programs import Command, Program, Python
from workers.checks.regex import Regex
from workers.checks.sql import Sql
from workers.checks.text import Contains, Exact, NonEmpty, NotContains
from workers.kinds import build

__all__ = [
    "KINDS",
    "Check",
    "CheckContext",
    "CheckInvalid",
    "Checked",
    "check",
    "is_quick",
    "run_checks",
    "runs_programs",
]

KINDS: Mapping[str, type[Check]] = MappingProxyType(
    {
        model.kind: model
        for model in (
            NonEmpty, Contains, NotContains, Exact, Regex, Number, Json, JsonFields, JsonSchema, Sql,
            NoConnectionString, PathsExist, FileExists, FileJson, Command, Python,
        )
    }
)  # fmt: skip


def runs_programs(made: Check) -> bool:
    """Whether a check starts a program of the user's own."""
    return isinstance(made, Program)


def is_quick(spec: Mapping[str, Any]) -> bool:
    """Whether the check that a task file describes so computes a moment at the most."""
    model = KINDS.get(str(spec.get("kind")))
    return model is not None and model.quick


def check(spec: Mapping[str, Any]) -> Check:
    """The check that a task file describes by `kind` and its parameters. Raises `CheckInvalid`."""
    kind = spec.get("kind")
    if not isinstance(kind, str):
        raise CheckInvalid(f"a check needs a kind, one of {', '.join(KINDS)}")
    return build(KINDS, kind, {name: value for name, value in spec.items() if name != "kind"}, CheckInvalid)
