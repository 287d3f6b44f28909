"""What a question needs of a connection, whichever its driver: so asking does not load psycopg."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

Row = dict[str, Any]
"""Column -> value."""


class Rows(Protocol):
    """What a statement gave."""

    def fetchone(self) -> Row | None: ...

    def fetchall(self) -> list[Row]: ...

    def __iter__(self) -> Iterator[Row]: ...


class Reader(Protocol):
    """A connection in autocommit mode."""

    def execute(self, query: str, params: Mapping[str, Any] | None = None, /) -> Rows: ...
