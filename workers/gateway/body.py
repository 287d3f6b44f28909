"""Bodies as gateways send them, read without trusting any of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.safetext import terminal_text

_MOST_LEVELS = 100
_TITLE = re.compile(r"<title[^>]*>(.{1,200}?)</title", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Said:
    """What an error body says."""

    code: str = ""
    """The machine-readable code, in lower case."""
    kind: str = ""
    """OpenAI's `type`, in lower case."""
    text: str = ""


def one_line(text: str, at_most: int) -> str:
    """Text as a single printable line."""
    line = terminal_text(" ".join(text[: 4 * at_most].split()))
    return line if len(line) <= at_most else f"{line[: at_most - 1]}…"


def label(value: object) -> str | None:
    """A short identifier such as a response id or a finish reason."""
    return one_line(value, 200) if isinstance(value, str) and value else None


def parse_json(text: str | bytes) -> object:
    """The JSON value, with NaN and infinities (which JSON has not) as `None`.

    Raises `ValueError` for everything else: wrong syntax, wrong UTF-8, numbers too long, nesting too deep.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def said_by(body: object) -> Said:
    """What an error body says: `{"error": {…}}`, `{"error": "…"}`, `{"message": …}`, a text, a list."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        return Said(text=body if isinstance(body, str) else "")
    error = body.get("error") or body
    if not isinstance(error, Mapping):
        return Said(text=str(error), code=_word(body.get("code")))
    text = next((error[key] for key in ("message", "msg", "detail", "error") if error.get(key)), "")
    return Said(
        code=_word(error.get("code")),
        kind=_word(error.get("type")),
        text=text if isinstance(text, str) else json.dumps(text, default=str)[:2000],
    )


def _word(value: object) -> str:
    return str(value)[:200].lower() if isinstance(value, str | int) else ""


def describe(content: bytes) -> str:
    """What a body that is not the expected JSON looks like, for a person."""
    if not content.strip():
        return "an empty body"
    text = content[:20_000].decode("utf-8", errors="replace").strip()
    if text[:1] == "<":
        title = _TITLE.search(text)
        return f"an HTML page '{title.group(1).strip()}'" if title else "an HTML page"
    return f"'{one_line(text, 160)}'"


def storable(value: Any, *, at_most: int) -> bool:
    """Whether JSON can hold the value, in so many characters, and whoever reads it later can walk through it."""
    try:
        return _within(value, _MOST_LEVELS) and len(json.dumps(value, allow_nan=False)) <= at_most
    except (ValueError, TypeError):
        return False


def _within(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_within(part, levels - 1) for part in parts)
