r"""Text from models and files, made safe for the place it is written to.

| place | danger | what is done |
|---|---|---|
| CSV | a spreadsheet runs a cell that starts like a formula | a `'` before it; `csv_value` takes it off |
| Markdown cell | `\|`, line breaks, links, HTML | escaped with a backslash; line breaks become spaces |
| HTML | markup, scripts | entities, quotes too |
| terminal | ANSI and control sequences, right-to-left overrides | shown as `\u001b`, never sent |

NUL, other control characters and lone surrogates cannot be stored or encoded everywhere: they are written as
`\uXXXX` everywhere. In CSV this can be undone: a backslash that already stood before `u` is written `\u005c`.
"""

import re

_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")
_SURROGATE_OR_NUL = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")
_MARKDOWN = re.compile(r"([\\`*\[\]<>|~&$])")


def _code(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def csv_text(text: str) -> str:
    """Text for a CSV cell (the CSV writer still quotes it). `csv_value` is its exact inverse."""
    escaped = _SURROGATE_OR_NUL.sub(_code, text.replace("\\u", "\\u005cu"))
    return f"'{escaped}" if escaped[:1] in _FORMULA_STARTS or _is_escaped_start(escaped) else escaped


def csv_value(cell: str) -> str:
    """The text that `csv_text` was given."""
    if cell[:1] == "'" and (cell[1:2] in _FORMULA_STARTS or _is_escaped_start(cell[1:])) and len(cell) > 1:
        cell = cell[1:]
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), cell)


def _is_escaped_start(text: str) -> bool:
    """Whether `csv_text` could have made this text by prefixing, so that it needs a prefix itself."""
    stripped = text.lstrip("'")
    return text[:1] == "'" and stripped[:1] in _FORMULA_STARTS and stripped != ""


def markdown_cell(text: str) -> str:
    """Text for one cell of a Markdown table: one line, nothing in it is markup."""
    one_line = re.sub(r"\s*[\r\n\v\f\u2028\u2029]+\s*", " ", text).replace("\t", " ")
    return _MARKDOWN.sub(r"\\\1", _BIDI.sub(_code, _CONTROL.sub(_code, one_line)))


def html_text(text: str) -> str:
    """Text for HTML content or a quoted attribute."""
    # Its table of entities is larger than all of this module, and few commands write HTML.
    from html import escape

    return escape(_BIDI.sub(_code, _CONTROL.sub(_code, text)), quote=True)


def terminal_text(text: str) -> str:
    """Text for a terminal: line breaks and tabs stay, every other control character is shown, not sent."""
    return _BIDI.sub(_code, _CONTROL.sub(_code, text))
