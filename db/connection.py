"""Connections to Postgres: one-off, pooled for threads, pooled for an event loop."""

import re
from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from db.errors import DatabaseUnreachable

Row = dict[str, Any]
Connection = psycopg.Connection[DictRow]
AsyncConnection = psycopg.AsyncConnection[DictRow]

CONNECT_OPTIONS: dict[str, Any] = {
    "row_factory": dict_row,
    "connect_timeout": 10,
    # A half-open connection (peer gone, no RST) is noticed in about half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
}

_RECONNECT_S = 4.0
# A process that is frozen in the middle of a transaction holds its locks, and the scheduler would wait for it. The
# second, from Postgres 17 on, also ends one whose statements have arrived in part.
_ASLEEP = "SET idle_in_transaction_session_timeout = '10s'"
_HALF_SENT = "SET transaction_timeout = '30s'"
_HALF_SENT_FROM = 170_000

AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
    psycopg.errors.ReadOnlySqlTransaction,
)
"""Postgres is away, restarting, failing over, or has ended the session: the same move can be made again later."""


def sqlalchemy_url(database_url: str) -> str:
    """The same URL with the driver that SQLAlchemy shall use."""
    return re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql+psycopg://", database_url)


def connect(database_url: str, *, application: str = "paretoken") -> Connection:
    """One connection in autocommit mode; use `with connection.transaction()` around what belongs together."""
    try:
        return psycopg.Connection[DictRow].connect(
            database_url, autocommit=True, application_name=application, **CONNECT_OPTIONS
        )
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(f"No database answers: {str(error).strip()}") from None


def never_hold_locks_asleep(connection: Connection) -> None:
    """Let Postgres end this session should it fall asleep in a transaction; for processes of a run."""
    connection.execute(_ASLEEP)
    if connection.info.server_version >= _HALF_SENT_FROM:
        connection.execute(_HALF_SENT)


async def _configure(connection: AsyncConnection) -> None:
    await connection.execute(_ASLEEP)
    if connection.info.server_version >= _HALF_SENT_FROM:
        await connection.execute(_HALF_SENT)


def pool(database_url: str, *, size: int, application: str) -> AsyncConnectionPool[AsyncConnection]:
    """A closed pool of `size` autocommit connections for one event loop; open it with `await pool.open()`."""
    return AsyncConnectionPool(
        database_url,
        min_size=1,
        max_size=size,
        open=False,
        # Its back-off doubles without a bound, so that after a minute's outage it would not look for a minute: leases
        # would be over long since. Given up, a connection is tried anew as soon as somebody wants one.
        reconnect_timeout=_RECONNECT_S,
        configure=_configure,
        kwargs={"autocommit": True, "application_name": application, **CONNECT_OPTIONS},
        connection_class=psycopg.AsyncConnection[DictRow],
    )
