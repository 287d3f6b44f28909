"""Checks that look at the answer as a JSON document."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NoReturn

from pydantic import AfterValidator, Field

from workers import sandbox
from workers.checks.base import Check, CheckContext, Checked
from workers.checks.comparing import Tolerant
from workers.fences import fenced_blocks

_MISSING = object()


class NotJson(ValueError):
    """The answer holds no JSON document; the message says why."""


def document_in(answer: str, *, strict: bool) -> Any:
    """The JSON value of the whole answer, or else (unless `strict`) of its first fenced block.

    Raises:
        NotJson: what is wrong, and where.
    """
    try:
        return _parsed(answer)
    except NotJson:
        blocks = fenced_blocks(answer)
        if strict or not blocks:
            raise
    return _parsed(blocks[0].text)


def _parsed(text: str) -> Any:
    if not text.strip():
        raise NotJson("the answer is empty")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise NotJson("the JSON is nested too deeply") from None
    except ValueError as error:  # a JSONDecodeError, or a number with thousands of digits
        raise NotJson(f"no JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


class Json(Check):
    """The answer is valid JSON."""

    kind: ClassVar[str] = "json"

    strict: bool = False
    """Nothing but JSON may stand in the answer; otherwise it may also be in the first fenced block."""
    root: Literal["any", "object", "array"] = "any"

    def run(self, answer: str, context: CheckContext) -> Checked:
        try:
            value = document_in(answer, strict=self.strict)
        except NotJson as error:
            return Checked(passed=False, message=str(error))
        root = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "scalar"
        passed = self.root in ("any", root)
        return Checked(passed=passed, message=f"valid JSON, its root is {root}", seen=root)


class JsonFields(Tolerant):
    """Fields of the answer's JSON have the expected values; other fields are not looked at."""

    kind: ClassVar[str] = "json_fields"

    fields: Mapping[str, Any] = Field(min_length=1)
    """Path -> value. A path is names and list positions from 0 joined by dots: `columns.0.name`."""
    strict: bool = False
    """Nothing but JSON may stand in the answer; otherwise it may also be in the first fenced block."""

    def run(self, answer: str, context: CheckContext) -> Checked:
        try:
            document = document_in(answer, strict=self.strict)
        except NotJson as error:
            return Checked(passed=False, message=str(error))
        seen = {path: _at(document, path) for path in self.fields}
        wrong = [path for path, expected in self.fields.items() if not self.same(expected, seen[path])]
        message = "; ".join(_complaint(path, self.fields[path], seen[path]) for path in wrong[:5])
        return Checked(
            passed=not wrong,
            message=message or f"all {len(seen)} fields are as expected",
            seen={path: value for path, value in seen.items() if value is not _MISSING},
        )


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            return _MISSING
    return document


def _complaint(path: str, expected: Any, seen: Any) -> str:
    if seen is _MISSING:
        return f"{path} is missing"
    return f"{path}: expected {_short(expected)}, seen {_short(seen)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:100] + "…"


def is_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema, if it is one; raises `ValueError`."""
    import jsonschema  # late: it takes a while, and few task files use it

    try:
        jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator).check_schema(
            schema
        )
    except jsonschema.SchemaError as error:
        raise ValueError(f"no JSON Schema: {error.json_path}: {error.message}") from None
    return schema


class JsonSchema(Check):
    """The answer's JSON keeps a JSON Schema (draft 2020-12, or the one its `$schema` names).

    References may point inside the schema only, `format` is not looked at. It runs in the sandbox, because a
    schema can hold patterns and comparisons that take for ever on a hostile document.
    """

    kind: ClassVar[str] = "json_schema"
    quick: ClassVar[bool] = False

    document: Annotated[Mapping[str, Any], AfterValidator(is_schema)] = Field(alias="schema")
    strict: bool = False
    """Nothing but JSON may stand in the answer; otherwise it may also be in the first fenced block."""

    def run(self, answer: str, context: CheckContext) -> Checked:
        try:
            value = document_in(answer, strict=self.strict)
            faults = sandbox.run("json_schema", schema=dict(self.document), value=value)
        except (NotJson, sandbox.Refused) as error:
            return Checked(passed=False, message=str(error))
        return Checked(
            passed=not faults, message="; ".join(faults) or "the JSON keeps the schema", seen=faults or None
        )
