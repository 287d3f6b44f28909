"""A quick look into the database, by a driver that is loaded in a fifth of psycopg's time.

It answers a short command before psycopg would be there, or gives up early. Whoever glances asks psycopg then, which
waits longer, knows more of what may come, and says what is wrong.
"""

import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

import psycopg2
from psycopg2 import extensions

from db.reader import Reader, Row

_SILENCE_S = 2.0
_TIMESTAMPTZ = 1184


class NotSeen(Exception):
    """The driver could not look, whatever the reason."""


@contextmanager
def connect(database_url: str) -> Iterator[Reader]:
    """A connection that reads.

    Raises:
        NotSeen: nothing answers there for two seconds, or a statement fails, then or later.
    """
    extensions.set_wait_callback(_wait)
    try:
        with closing(psycopg2.connect(database_url, client_encoding="UTF8")) as driver:
            driver.autocommit = True
            extensions.register_type(_time, driver)
            yield _Reader(driver)
    except psycopg2.Error as error:
        raise NotSeen(str(error).strip()) from None


def _wait(driver: extensions.connection) -> None:
    """Until Postgres has answered. By itself the driver would wait in C, where nobody hears Ctrl-C."""
    while (state := driver.poll()) != extensions.POLL_OK:
        reading, writing = ([driver] if state == wanted else [] for wanted in _POLLS)
        if not any(select.select(reading, writing, [], _SILENCE_S)):
            raise psycopg2.OperationalError("no answer in time")


_POLLS = (extensions.POLL_READ, extensions.POLL_WRITE)
# Strict: the driver itself would read an infinite time as the year 9999.
_time = extensions.new_type(
    (_TIMESTAMPTZ,),
    "timestamptz",
    lambda text, _: None if text is None else datetime.fromisoformat(str(text)),
)


class _Reader:
    def __init__(self, driver: extensions.connection) -> None:
        self._driver = driver

    def execute(self, query: str, params: Mapping[str, Any] | None = None, /) -> "_Rows":
        try:
            with self._driver.cursor() as cursor:
                cursor.execute(query, params)
                names = [column.name for column in cursor.description or ()]
                return _Rows([dict(zip(names, row, strict=True)) for row in cursor])
        except ValueError as error:  # a text that cannot be sent, a time that Python has no room for
            raise NotSeen(str(error)) from None


class _Rows:
    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def fetchone(self) -> Row | None:
        return next(self._rows, None)

    def fetchall(self) -> list[Row]:
        return list(self._rows)
