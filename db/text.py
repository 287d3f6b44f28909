"""Text as Postgres takes it: NUL and lone surrogates are escaped, reversibly; all other text stays.

The escape is a private-use character, the mark, and four hexadecimal digits; the mark itself is escaped too. The two
halves of a surrogate pair, which a stream may have cut apart, become the one character that they are: JSON cannot
tell them from it.
"""

import json
import re
from collections.abc import Mapping

MARK = "\uf8f0"
MARK_BYTES = MARK.encode()

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_UNFIT = re.compile("[\x00\ud800-\udfff\uf8f0]")
_ESCAPE = re.compile("\uf8f0([0-9a-f]{4})")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# The same in a line of JSON, where such a character may stand as `\uXXXX`: a whole pair or another escape (kept as
# it is), an unfit one, the mark.
_UNFIT_IN_JSON = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u])"
    rb"|\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2}|[fF]8[fF]0)|" + MARK_BYTES
)
_ESCAPE_IN_JSON = re.compile(MARK_BYTES + rb"([0-9a-f]{4})")


def to_database(text: str) -> str:
    """The text with NUL, lone surrogates and the mark replaced by escapes."""
    whole = _PAIR.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _UNFIT.sub(lambda found: f"{MARK}{ord(found.group()):04x}", whole)


def from_database(text: str) -> str:
    """The text that was given to `to_database`."""
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)


def encodable(text: str) -> str:
    """The text out of the database with lone surrogates written as `\\uXXXX`, for what takes UTF-8 only."""
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", from_database(text))


def escape_json(value: object) -> object:
    """A JSON value with every string in it, keys too, made fit for a jsonb column."""
    if isinstance(value, str):
        return to_database(value)
    if isinstance(value, Mapping):
        return {to_database(str(key)): escape_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [escape_json(inner) for inner in value]
    return value


def unescape_json(value: object) -> object:
    """The JSON value that was given to `escape_json`."""
    if isinstance(value, str):
        return from_database(value)
    if isinstance(value, Mapping):
        return {from_database(str(key)): unescape_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unescape_json(inner) for inner in value]
    return value


def json_to_database(line: bytes) -> bytes:
    """`escape_json` for JSON that is still text (UTF-8): nothing else of it changes, no digit of a number either."""
    # A search for one byte takes a tenth of the time of the others.
    if line.isascii() and b"\\" not in line:
        return line
    if b"\\u" not in line and MARK_BYTES not in line:
        return line
    return _UNFIT_IN_JSON.sub(_escaped, line)


def database_json(value: object) -> str:
    """A JSON value as the text of it that a jsonb column takes."""
    return json_to_database(json.dumps(value).encode()).decode()


def _escaped(found: re.Match[bytes]) -> bytes:
    kept, unfit = found.groups()
    return kept or MARK_BYTES + (unfit or b"f8f0").lower()


def json_from_database(text: bytes) -> bytes:
    """JSON text out of the database, with what was escaped as JSON's own `\\uXXXX`."""
    if MARK_BYTES not in text:
        return text
    return _ESCAPE_IN_JSON.sub(rb"\\u\1", text)
