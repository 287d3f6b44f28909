"""The ledger as JSON Lines: one line for every HTTP attempt that has an outcome, with the documented names."""

import json
from collections.abc import Iterable, Iterator

from db.connection import Connection
from db.queries import SQL
from db.text import MARK, from_database

_MARK_BYTES = MARK.encode()


def export_lines(connection: Connection, *, run: int) -> Iterator[bytes]:
    """The run's ledger rows as JSON objects, one a line, ordered by task, strategy, repeat, round, sample, attempt."""
    # Postgres writes the JSON. A CSV copy whose quote and delimiter cannot occur hands it over untouched.
    query = SQL["copy_ledger"].rstrip(";").replace("%(run)s", str(int(run)))
    options = r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'"
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT ({options})") as copy:
        for line in _lines(copy):
            yield _unescaped(line) if _MARK_BYTES in line else line


def _lines(blocks: Iterable[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *whole, rest = (rest + bytes(block)).split(b"\n")
        yield from whole
    assert not rest


def _unescaped(line: bytes) -> bytes:
    """NUL and lone surrogates as the gateway sent them; JSON writes both as escapes."""
    row = json.loads(line, object_hook=lambda found: {key: _text(value) for key, value in found.items()})
    return json.dumps(row, separators=(",", ":")).encode()


def _text(value: object) -> object:
    return from_database(value) if isinstance(value, str) else value
