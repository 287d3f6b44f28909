"""A pool of connections for an event loop; apart from `db.connection`, so that short commands need not load it."""

import psycopg
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool

from db.connection import CONNECT_OPTIONS, AsyncConnection, guards_against_sleep

_RECONNECT_S = 4.0


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


async def _configure(connection: AsyncConnection) -> None:
    for setting in guards_against_sleep(connection.info.server_version):
        await connection.execute(setting)
