"""Ledger rows in whatever order: Postgres keeps them, says which contradict each other, and gives them back sorted."""

from collections.abc import Iterable, Iterator

import msgspec
import psycopg
from psycopg.rows import dict_row

from db.background import Background
from db.connection import Connection
from db.errors import LedgerInvalid
from db.ledger_files import LedgerFile
from db.ledger_reader import CheckedRow, read_row
from db.queries import SQL
from db.reader import Row

_FETCHED_ROWS = 500
# Statement -> what its two rows have in common, and what to do about it.
_PAIRS = {
    "repeated_row": ("the same task, strategy, repeat, try, round, sample, attempt, turn", "Remove one."),
    "answered_twice": ("used is true for two attempts of one call", "Leave it true for one of them."),
    "used_in_part": ("used is not the same for all turns of one attempt", "Give all of them the same."),
    "judged_twice": (
        "winner and opponent of one trial are not the same",
        "Give all rows of the trial the same.",
    ),
}


def keep_rows(connection: Connection, file: LedgerFile, rows: Iterable[CheckedRow]) -> None:
    """Keep them until the end of the transaction.

    Raises:
        LedgerInvalid: two of them contradict each other.
    """
    connection.execute(SQL["keep_rows"])
    with connection.cursor().copy(SQL["copy_rows"]) as copy:
        for number, line, row in rows:
            key = (
                row.task_id,
                row.strategy or "",
                row.repeat,
                row.try_,
                row.round,
                row.sample,
                row.attempt,
                row.turn,
            )
            judged = (_json(row.winner), _json(row.opponent))
            copy.write_row((number, *key, row.kind, row.used, *judged, line.decode()))
    for statement, (what, advice) in _PAIRS.items():
        pair = connection.execute(SQL[statement]).fetchone()
        if pair is not None:
            raise LedgerInvalid(
                f"{file.place(pair['second'])}: {what} as in {file.short_place(pair['first'])}. {advice}"
            )


def _json(names: str | list[str] | None) -> str | None:
    return None if names is None else msgspec.json.encode(names).decode()


def sorted_rows(connection: Connection, postgres: Background, file: LedgerFile) -> Iterator[CheckedRow]:
    """The rows that were kept, those that belong together one after another."""
    # Fetched where the tables are filled meanwhile: a connection does one thing at a time.
    cursor = psycopg.ServerCursor[Row](connection, "sorted_rows", row_factory=dict_row)
    postgres.ask(cursor.execute, SQL["sorted_rows"]).result()
    following = postgres.ask(cursor.fetchmany, _FETCHED_ROWS)
    while found := following.result():
        following = postgres.ask(cursor.fetchmany, _FETCHED_ROWS)
        for kept in found:
            line = kept["entry"].encode()
            yield kept["line"], line, read_row(line, file.place, kept["line"])
    postgres.ask(cursor.close)
