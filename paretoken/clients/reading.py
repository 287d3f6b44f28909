"""A client's file as it stands: its text, what it says, and where."""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paretoken.findings import Finding, failure
from workers.keys import has_key, is_variable

_AT_LINE = re.compile(r"at line (\d+)")
_SECRET_NAME = re.compile(r"(api[-_]?key|token|secret|^authorization)$", re.IGNORECASE)
_HELPER = "apiKeyHelper"
# A helper is a command that fetches the key; one that prints its own words has it in them.
_PRINTED = re.compile(r"(?s)\b(echo|printf)\b(?!.*[$`<|])")
_LONG_WORD = re.compile(r"(?<![\w/])(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{24,}(?![\w/])")
_LOWER_WORDS = re.compile(r"(?!(sk|pk|tok)[-_])[a-z]{1,20}([_-][a-z]{1,20})*")
_MOST_SHOWN = 40
_PLACEHOLDER = re.compile(r"\$|<.*>|%\w+%|your[-_ ]|^x+$|placeholder|\*\*\*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ClientFile:
    """A file that could be read. It may hold a key, so its content is kept out of the repr."""

    path: Path
    text: str = field(repr=False)
    document: Mapping[str, Any] = field(repr=False)

    def place(self, name: str) -> str:
        """File and line of the first mention of a key."""
        for number, line in enumerate(self.text.splitlines(), start=1):
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line):
                return f"{self.path}:{number}"
        return str(self.path)


def read(path: Path, *, what: str) -> ClientFile | Finding | None:
    """The file; a finding where it is broken; None where there is none."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except OSError as error:
        return failure(
            what, f"{path}: cannot be read ({error.strerror})", "Give yourself the right to read it."
        )
    except UnicodeDecodeError as error:
        return failure(what, f"{path}: byte {error.start} is no UTF-8", "Save it as UTF-8.")
    return _parsed(path, text, what=what)


def _parsed(path: Path, text: str, *, what: str) -> ClientFile | Finding:
    try:
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except RecursionError:
        return _broken(str(path), "it is nested too deeply", what=what)
    except ValueError as error:
        return _broken(*_place_and_problem(error, path, text), what=what)
    if not isinstance(document, dict):
        return _broken(f"{path}:1", "an object { … } is expected", what=what)
    return ClientFile(path=path, text=text, document=document)


def _place_and_problem(error: ValueError, path: Path, text: str) -> tuple[str, str]:
    """Place and problem of a file that is no JSON or no TOML. Both messages name no content."""
    if isinstance(error, json.JSONDecodeError):
        return f"{path}:{error.lineno}", f"no JSON: {error.msg}"
    if not isinstance(error, tomllib.TOMLDecodeError):  # Python's limit on the digits of a whole number
        return str(path), "it holds a number of too many digits"
    line = _AT_LINE.search(str(error))
    number = int(line[1]) if line else max(1, len(text.splitlines()))
    return f"{path}:{number}", f"no TOML: {str(error).partition(' (at')[0]}"


def _broken(place: str, problem: str, *, what: str) -> Finding:
    return failure(what, f"{place}: {problem}", "Correct it; the client does not read the file as it is.")


def shown_name(name: str, known: Collection[str] = ()) -> str:
    """The name of an entry; of what may be a key in the wrong place, only that it is not shown."""
    words = _LOWER_WORDS.fullmatch(name) and len(name) <= _MOST_SHOWN
    return name if name in known or words or is_variable(name) else "(a name that may be a key)"


def inner(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table in a table; empty where there is none."""
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Every (key, value) at the ends of a document."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, str(key))
    elif isinstance(value, list):
        for below in value:
            yield from leaves(below, name)
    else:
        yield name, value


def literal_keys(document: Mapping[str, Any], secrets: frozenset[str]) -> list[str]:
    """Names of the entries that hold a key itself instead of naming where it is."""
    return [
        name for name, value in leaves(document) if isinstance(value, str) and _is_key(name, value, secrets)
    ]


def _is_key(name: str, value: str, secrets: frozenset[str]) -> bool:
    if any(secret in value for secret in secrets) or has_key(value):
        return True
    if name == _HELPER:
        return bool(_PRINTED.search(value) or _LONG_WORD.search(value))
    return bool(_SECRET_NAME.search(name)) and len(value) > 3 and not _PLACEHOLDER.search(value)
