"""Tables of ledger rows into the database, in batches: while Postgres stores one, the next is made."""

import io
import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass

import polars as pl
import psycopg
from psycopg import sql

from db.background import Background
from db.connection import Connection
from db.errors import LedgerInvalid
from db.ledger_groups import Batch, Groups, Names
from db.queries import SQL

# For so many batches ids are drawn at once.
_BATCHES = 3


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a file held."""

    rows: int
    trials: int


def load(
    connection: Connection,
    postgres: Background,
    frames: Iterable[pl.DataFrame],
    *,
    run: int,
    strategies: dict[str, int],
    place: Callable[[int], str],
) -> Loaded:
    """Store the rows of a run.

    `postgres` has the connection to itself. `strategies` are there already, by name; `place` says where in the file a
    row stands.

    Raises:
        Tangled: as `Groups.add`.
        psycopg.errors.UniqueViolation: rows that belong together do not follow each other.
        LedgerInvalid: Postgres refuses a value.
    """
    names = Names(
        strategies=strategies,
        add_strategy=lambda name: postgres.ask(_strategy, connection, run, name).result(),
        add_lane=lambda model: postgres.ask(_lane, connection, run, model).result(),
    )
    groups = Groups(run=run, names=names, draw=_Ids(connection, postgres).draw)
    for frame in frames:
        if batch := groups.add(frame):
            postgres.give(_store, connection, _written(batch), batch, place)
    if batch := groups.end():
        postgres.give(_store, connection, _written(batch), batch, place)
    postgres.settle()
    return Loaded(rows=groups.rows, trials=groups.trials)


class _Ids:
    """New ids of the tables, drawn before they are wanted."""

    def __init__(self, connection: Connection, postgres: Background) -> None:
        self._connection, self._postgres = connection, postgres
        self._stock: dict[str, list[int]] = {}
        self._following: dict[str, Future[list[int]]] = {}

    def draw(self, table: str, number: int) -> list[int]:
        stock = self._stock.get(table, [])
        while len(stock) < number:
            stock = stock + (self._following.pop(table, None) or self._ask(table, number)).result()
        taken, stock = stock[:number], stock[number:]
        if table not in self._following and 0 < len(stock) < 2 * number:
            # Asked for now, they are there before the batches that wait for Postgres are.
            self._following[table] = self._ask(table, number)
        self._stock[table] = stock
        return taken

    def _ask(self, table: str, number: int) -> "Future[list[int]]":
        return self._postgres.ask(_draw, self._connection, table, _BATCHES * number)


def _draw(connection: Connection, table: str, number: int) -> list[int]:
    row = connection.execute(SQL["draw_ids"], {"table": table, "number": number}).fetchone()
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


def _written(batch: Batch) -> dict[str, bytes]:
    """The tables as CSV in which every text has quotes, and NULL none."""
    written = {}
    for name, table in batch.tables.items():
        out = io.BytesIO()
        table.write_csv(
            out, include_header=False, quote_style="non_numeric", null_value="null", datetime_format="%+"
        )
        written[name] = out.getvalue()
    return written


def _store(
    connection: Connection, written: dict[str, bytes], batch: Batch, place: Callable[[int], str]
) -> None:
    try:
        for name, lines in written.items():
            statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, NULL 'null')").format(
                sql.Identifier(name), sql.SQL(", ").join(map(sql.Identifier, batch.tables[name].columns))
            )
            with connection.cursor().copy(statement) as copy:
                copy.write(lines)
    except psycopg.DataError as error:
        raise LedgerInvalid(_reason(error, batch, place)) from None


def _row_at(table: pl.DataFrame, line: int) -> int:
    """Which row Postgres means: it counts line ends inside of texts too, in the first row carriage returns instead."""

    def ends(end: str) -> list[int]:
        counts = pl.col(pl.String).str.count_matches(end, literal=True).fill_null(0)
        return table.select(pl.sum_horizontal(counts)).to_series().to_list()

    heights = [1 + inside for inside in (ends("\r")[:1] + ends("\n")[1:])]
    return bisect_left(list(itertools.accumulate(heights)), line)


def _reason(error: psycopg.DataError, batch: Batch, place: Callable[[int], str]) -> str:
    """What Postgres alone refuses, such as a number in `usage` that is beyond its range."""
    found = re.search(r"COPY call, line (\d+)", error.diag.context or "")
    where = f"{place(batch.lines[_row_at(batch.tables['call'], int(found.group(1)))])}: " if found else ""
    return f"{where}{error.diag.message_primary}. {error.diag.message_detail or ''}".strip()
