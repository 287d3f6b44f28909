"""Any text of a gateway can be stored, and comes out as it went in."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from db.text import (
    MARK,
    database_json,
    encodable,
    escape_json,
    from_database,
    json_from_database,
    json_to_database,
    to_database,
)

# All that Python's strings can hold: surrogates too.
ANY = st.text(st.characters(exclude_categories=()))
NASTY = st.text(st.sampled_from('\x00\ud800\udc00\udfff\uf8f0\\u0d8fF"a\n\U0001f600'))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY
    | NASTY,
    lambda inner: st.lists(inner) | st.dictionaries(ANY | NASTY, inner),
    max_leaves=12,
)


def joined(text: str) -> str:
    """As JSON sees it: two halves that stand side by side are one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@given(ANY | NASTY)
@example("\ud83d\ude00")
@example("\ud800\ud800\udc00")
@example(f"{MARK}0000")
def test_text_survives(text: str) -> None:
    stored = to_database(text)
    assert "\x00" not in stored
    stored.encode()
    assert from_database(stored) == joined(text)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain", "plain"),
        ("a\x00b", "a\uf8f00000b"),
        ("\ud800", "\uf8f0d800"),
        ("\uf8f0", "\uf8f0f8f0"),
        # 😀 whose halves came in two chunks of a stream
        ("\ud83d" + "\ude00", "\U0001f600"),
        ("\ude00\ud83d", "\uf8f0de00\uf8f0d83d"),
    ],
)
def test_only_what_cannot_be_stored_is_escaped(text: str, stored: str) -> None:
    assert to_database(text) == stored


@given(JSON, st.booleans())
@example({"a": ["\ud800", {"\x00": "\\u0000"}]}, True)
def test_json_text_is_escaped_as_its_value_is(value: object, ascii_only: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if not ascii_only and re.search(rb"\xed[\xa0-\xbf]", line):
        return  # no UTF-8, so no JSON
    stored = json_to_database(line)
    assert json.loads(stored) == escape_json(json.loads(line))
    assert json.loads(database_json(json.loads(line))) == escape_json(json.loads(line))
    assert json.loads(json_from_database(stored)) == json.loads(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"n":1.10,"big":123456789012345678901234567890,"e":1e400,"t":"caf\\u00e9 \\ud83d\\ude00 \\\\u0000"}',
        b"[]",
    ],
)
def test_json_that_can_be_stored_stays_byte_for_byte(line: bytes) -> None:
    assert json_to_database(line) == line
    assert json_from_database(line) == line


@given(ANY | NASTY)
def test_encodable_text_is_utf8_and_shows_halves(text: str) -> None:
    shown = encodable(to_database(text))
    shown.encode()
    halves = re.findall("[\ud800-\udfff]", joined(text))
    assert len(shown) == len(joined(text)) + 5 * len(halves)
