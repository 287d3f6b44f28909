"""Text as Postgres takes it: NUL and lone surrogates are escaped, reversibly; all other text stays."""

import re
from collections.abc import Mapping

# A private-use character opens an escape: mark, four hexadecimal digits. The mark itself is escaped too.
MARK = "\uf8f0"
_ESCAPED = re.compile("[\x00\ud800-\udfff\uf8f0]")
_ESCAPE = re.compile("\uf8f0([0-9a-f]{4})")


def to_database(text: str) -> str:
    """The text with NUL, lone surrogates and the mark replaced by escapes."""
    return _ESCAPED.sub(lambda found: f"{MARK}{ord(found.group()):04x}", text)


def from_database(text: str) -> str:
    """The text that was given to `to_database`."""
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)


def escape_json(value: object) -> object:
    """A JSON value with every string in it, keys too, made fit for a jsonb column."""
    if isinstance(value, str):
        return to_database(value)
    if isinstance(value, Mapping):
        return {to_database(str(key)): escape_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [escape_json(inner) for inner in value]
    return value
