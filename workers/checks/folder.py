"""Checks on files: those that the trial has written, and those that its answer names."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from workers.checks.base import Check, CheckContext, Checked
from workers.checks.comparing import Tolerant
from workers.checks.documents import JsonFields, JsonSchema, is_schema
from workers.connection_strings import connection_string_in


class NoConnectionString(Check):
    """Neither the answer nor a file that was written holds a database's connection string."""

    kind: ClassVar[str] = "no_connection_string"

    def run(self, answer: str, context: CheckContext) -> Checked:
        texts = {"the answer": answer, **{name: _text(content) for name, content in context.written.items()}}
        for where, text in texts.items():
            if found := connection_string_in(text):
                return Checked(
                    passed=False, message=f"a connection string ({found}) is in {where}", seen=where
                )
        return Checked(passed=True, message="there is no connection string")


_EXTENSIONS = (
    "csv|tsv|json|jsonl|ndjson|parquet|sqlite3?|db|xlsx?|txt|md|html?|xml|ya?ml|toml|ini|cfg|log|py|r|sh|sql|ipynb|"
    "pdf|png|jpe?g|svg|zip|gz|tar|pkl|feather|arrow"
)
# A name with a common ending, with or without folders; or whatever begins as a path does.
_PATH = re.compile(
    rf"(?<![\w/\\.:~<-])(?:(?:~|\.{{1,2}}|[A-Za-z]:)?[/\\](?:[\w.-]+[/\\])*[\w.-]*[A-Za-z][\w.-]*"
    rf"|(?:[\w-][\w.-]*[/\\])*[\w-][\w.-]*\.(?:{_EXTENSIONS})(?![\w/\\]))",
    re.IGNORECASE,
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S*", re.IGNORECASE)
_MOST_SHOWN = 20


class PathsExist(Check):
    """Every path that the answer names is a file of the task, or was written. Its folders or its ending tell a path."""

    kind: ClassVar[str] = "paths_exist"

    allow: Sequence[str] = ()
    """Further names, for example of a file that the task asks to be planned."""

    def run(self, answer: str, context: CheckContext) -> Checked:
        known = {*context.files, *context.written, *self.allow}
        known |= {PurePosixPath(name).name for name in known}
        named = dict.fromkeys(found.rstrip(".") for found in _PATH.findall(_URL.sub(" ", answer)))
        unknown = [name for name in named if name.removeprefix("./") not in known]
        if unknown:
            shown = ", ".join(repr(name[:100]) for name in unknown[:5])
            return Checked(passed=False, message=f"there is no {shown}", seen=unknown[:_MOST_SHOWN])
        return Checked(
            passed=True, message=f"all {len(named)} paths exist", seen=list(named)[:_MOST_SHOWN] or None
        )


class FileExists(Check):
    """The trial has written a file of this name."""

    kind: ClassVar[str] = "file_exists"

    file: str = Field(min_length=1)
    empty: bool = False
    """It may be empty."""

    def run(self, answer: str, context: CheckContext) -> Checked:
        content = context.written.get(self.file)
        if content is None:
            return _missing(self.file, context)
        passed = self.empty or bool(content.strip())
        message = f"{self.file} has {len(content):,} bytes" if passed else f"{self.file} is empty"
        return Checked(passed=passed, message=message, seen=_text(content[:2000]))


class FileJson(Tolerant):
    """The trial has written a file that is valid JSON, and its fields have values or it keeps a schema where given."""

    kind: ClassVar[str] = "file_json"

    file: str = Field(min_length=1)
    fields: Mapping[str, Any] = {}
    """Path -> value, as in `json_fields`."""
    document: Annotated[Mapping[str, Any], AfterValidator(is_schema)] = Field(alias="schema", default={})

    def run(self, answer: str, context: CheckContext) -> Checked:
        content = context.written.get(self.file)
        if content is None:
            return _missing(self.file, context)
        text = _text(content)
        schema = JsonSchema.model_validate({"schema": self.document, "strict": True}).run(text, context)
        if not schema.passed or not self.fields:
            message = f"{self.file}: {schema.message if self.document or not schema.passed else 'valid JSON'}"
            return Checked(passed=schema.passed, message=message, seen=schema.seen)
        fields = JsonFields(
            fields=self.fields,
            strict=True,
            abs_tolerance=self.abs_tolerance,
            rel_tolerance=self.rel_tolerance,
        ).run(text, context)
        return Checked(passed=fields.passed, message=f"{self.file}: {fields.message}", seen=fields.seen)


def _missing(file: str, context: CheckContext) -> Checked:
    written = ", ".join(context.written) or "none"
    return Checked(passed=False, message=f"{file} was not written; files that were: {written}")


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
