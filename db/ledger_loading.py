"""Checked ledger rows into the tables, in batches: while Postgres stores one, the next is made."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import psycopg

from db.background import Background
from db.connection import Connection
from db.errors import LedgerInvalid
from db.ledger_groups import Batch, Groups
from db.ledger_row import LedgerRow
from db.queries import SQL

# Some thousand rows.
BATCH_CHARS = 1_000_000
_IDS = 5_000
_TABLES = ("task", "trial", "judging", "job", "call", "judged_trial")
"""In this order each refers to what is there already."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a file held."""

    rows: int
    trials: int


def load(
    connection: Connection,
    postgres: Background,
    rows: Iterable[tuple[int, LedgerRow]],
    *,
    run: int,
    strategies: Mapping[str, int],
    place: Callable[[int], str],
) -> Loaded:
    """Store the (number, row) pairs of a run.

    `postgres` has the connection to itself. `strategies` are there already, by name; `place` says where in the file a
    number stands.

    Raises:
        Tangled: as `Groups.add`.
        psycopg.errors.UniqueViolation: rows that belong together do not follow each other.
        LedgerInvalid: Postgres refuses a value.
    """
    groups = Groups(
        run=run,
        ids={table: _ids(connection, postgres, table) for table in ("task", "trial", "judging", "job")},
        strategies=strategies,
        add_strategy=lambda name: postgres.ask(_strategy, connection, run, name).result(),
        add_lane=lambda model: postgres.ask(_lane, connection, run, model).result(),
    )
    for number, row in rows:
        groups.add(number, row)
        if groups.size >= BATCH_CHARS:
            postgres.give(_store, connection, groups.cut(), place)
    postgres.give(_store, connection, groups.end(), place)
    postgres.settle()
    return Loaded(rows=groups.rows, trials=groups.trials)


def _ids(connection: Connection, postgres: Background, table: str) -> Iterator[int]:
    """New ids of the table; the next ones are drawn while these are used."""
    following = postgres.ask(_draw, connection, table)
    while True:
        found = following.result()
        following = postgres.ask(_draw, connection, table)
        yield from found


def _draw(connection: Connection, table: str) -> list[int]:
    row = connection.execute(SQL["draw_ids"], {"sequence": f"{table}_id_seq", "number": _IDS}).fetchone()
    assert row is not None
    return list(row["ids"])


def _strategy(connection: Connection, run: int, name: str) -> int:
    return _made(connection, "import_strategy", {"run": run, "name": name})


def _lane(connection: Connection, run: int, model: str) -> int:
    return _made(connection, "import_lane", {"run": run, "model": model})


def _made(connection: Connection, statement: str, values: dict[str, object]) -> int:
    row = connection.execute(SQL[statement], values).fetchone()
    assert row is not None
    return int(row["id"])


def _store(connection: Connection, batch: Batch, place: Callable[[int], str]) -> None:
    with connection.cursor() as cursor:
        try:
            for table in _TABLES:
                if lines := getattr(batch, table):
                    with cursor.copy(SQL[f"copy_{table}"]) as copy:
                        copy.write("".join(lines))
        except psycopg.DataError as error:
            raise LedgerInvalid(_reason(error, batch, place)) from None
        cursor.executemany(SQL["change_trial"], batch.changed_trials)
        cursor.executemany(SQL["change_job"], batch.changed_jobs)


def _reason(error: psycopg.DataError, batch: Batch, place: Callable[[int], str]) -> str:
    """What Postgres alone refuses, such as a number in `usage` that is beyond its range."""
    found = re.search(r"COPY call, line (\d+)", error.diag.context or "")
    where = f"{place(batch.rows[int(found.group(1)) - 1])}: " if found else ""
    return f"{where}{error.diag.message_primary}. {error.diag.message_detail or ''}".strip()
