"""Ledger rows in whatever order: Postgres keeps them, says which contradict each other, and gives them back sorted."""

from collections.abc import Iterable, Iterator

import msgspec
import psycopg
from psycopg.rows import dict_row

from db.background import Background
from db.connection import Connection, Row
from db.copy_text import fields, quoted
from db.errors import LedgerInvalid
from db.ledger_files import LedgerFile
from db.ledger_reader import read_row
from db.ledger_row import LedgerRow
from db.queries import SQL

_FETCHED_ROWS = 2_000
_PAIRS = {
    "repeated_row": "the same task, strategy, repeat, try, round, sample, attempt, turn",
    "answered_twice": "used is true for two attempts of one call",
    "judged_twice": "winner and opponent of one trial are not the same",
}


CheckedRow = tuple[int, bytes, LedgerRow]
"""Where it stands in its file, its JSON as Postgres takes it, and the row, which is right by itself."""


def keep_rows(connection: Connection, file: LedgerFile, rows: Iterable[CheckedRow]) -> None:
    """Keep them until the end of the transaction.

    Raises:
        LedgerInvalid: two of them contradict each other.
    """
    connection.execute(SQL["keep_rows"])
    with connection.cursor().copy(SQL["copy_rows"]) as copy:
        for checked in rows:
            copy.write(_kept(checked))
    for statement, what in _PAIRS.items():
        pair = connection.execute(SQL[statement]).fetchone()
        if pair is not None:
            raise LedgerInvalid(
                f"{file.place(pair['second'])}: {what} as in {file.short_place(pair['first'])}. Remove one."
            )


def _kept(checked: CheckedRow) -> str:
    number, line, row = checked
    values = fields(
        number, row.repeat, row.try_, row.round, row.sample, row.attempt, row.turn, row.kind, row.used
    )
    said = (_json(names) for names in (row.winner, row.opponent))
    texts = (row.task_id, row.strategy or "", *said, line.decode())
    return f"{values},{','.join(quoted(text) for text in texts)}\n"


def _json(names: str | list[str] | None) -> str | None:
    return None if names is None else msgspec.json.encode(names).decode()


def sorted_rows(
    connection: Connection, postgres: Background, file: LedgerFile
) -> Iterator[tuple[int, LedgerRow]]:
    """The rows that were kept, those that belong together one after another."""
    # Fetched where the tables are filled meanwhile: a connection does one thing at a time.
    cursor = psycopg.ServerCursor[Row](connection, "sorted_rows", row_factory=dict_row)
    postgres.ask(cursor.execute, SQL["sorted_rows"]).result()
    following = postgres.ask(cursor.fetchmany, _FETCHED_ROWS)
    while found := following.result():
        following = postgres.ask(cursor.fetchmany, _FETCHED_ROWS)
        for kept in found:
            yield kept["line"], read_row(kept["entry"].encode(), file.place, kept["line"])
    postgres.ask(cursor.close)
