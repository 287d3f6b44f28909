"""Values as lines that `COPY … (FORMAT csv, NULL 'null')` reads."""

import msgspec

NULL = "null"

_json = msgspec.json.Encoder().encode


def fields(*values: object) -> str:
    """Numbers, times, short texts and None as fields, with commas between them.

    JSON writes them as CSV does, but for the characters that it escapes.
    """
    line = _json(values)
    if b"\\" not in line:
        return line[1:-1].decode()
    return ",".join(quoted(value) if isinstance(value, str) else _json(value).decode() for value in values)


def quoted(text: str | None) -> str:
    """A text as a field; what it holds, NULL's own word too, is a text."""
    return NULL if text is None else f'"{text.replace(_QUOTE, _TWO)}"'


_QUOTE, _TWO = '"', '""'
