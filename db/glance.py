"""A quick look into the database, by a driver that is loaded in a fifth of psycopg's time.

It answers a short command before psycopg would be there, and is for nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import psycopg2.extensions

from db.errors import DatabaseUnreachable
from db.reader import Reader, Row

_CONNECT_S = 10


@contextmanager
def connect(database_url: str) -> Iterator[Reader]:
    """A connection that reads.

    Raises:
        DatabaseUnreachable: nothing answers there, or a statement fails, then or later: psycopg says why.
    """
    try:
        with closing(psycopg2.connect(database_url, connect_timeout=_CONNECT_S)) as driver:
            driver.autocommit = True
            yield _Reader(driver)
    except psycopg2.Error as error:
        raise DatabaseUnreachable(f"No database answers: {str(error).strip()}") from None


class _Reader:
    def __init__(self, driver: psycopg2.extensions.connection) -> None:
        self._driver = driver

    def execute(self, query: str, params: Mapping[str, Any] | None = None, /) -> "_Rows":
        with self._driver.cursor() as cursor:
            cursor.execute(query, params)
            names = [column.name for column in cursor.description or ()]
            return _Rows([dict(zip(names, row, strict=True)) for row in cursor])


class _Rows:
    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def fetchone(self) -> Row | None:
        return next(self._rows, None)

    def fetchall(self) -> list[Row]:
        return list(self._rows)
