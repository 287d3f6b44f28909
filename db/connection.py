"""Connections to Postgres, and what its sessions of a run obey. Pools for an event loop: `db.pool`."""

import re
from typing import Any, LiteralString

import psycopg
from psycopg.rows import DictRow, dict_row

from db.errors import DatabaseUnreachable, DatabaseUrlInvalid

Connection = psycopg.Connection[DictRow]
AsyncConnection = psycopg.AsyncConnection[DictRow]

CONNECT_OPTIONS: dict[str, Any] = {
    "row_factory": dict_row,
    "connect_timeout": 10,
    # Whatever the user's environment, or a database's own, says.
    "client_encoding": "UTF8",
    # A half-open connection (peer gone, no RST) is noticed in about half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
}

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
    """One connection in autocommit mode; use `with connection.transaction()` around what belongs together.

    Raises:
        DatabaseUrlInvalid: it is no URL of a database.
        DatabaseUnreachable: nothing answers there, or the login is refused.
    """
    try:
        return psycopg.Connection[DictRow].connect(
            database_url, autocommit=True, application_name=application, **CONNECT_OPTIONS
        )
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(f"No database answers: {str(error).strip()}") from None
    except psycopg.ProgrammingError:
        # What is wrong with it may be a password.
        raise DatabaseUrlInvalid(
            "PARETOKEN_DATABASE_URL cannot be read. Write special characters of the password as %XX, and check the "
            "options after '?'."
        ) from None


def never_hold_locks_asleep(connection: Connection) -> None:
    """Let Postgres end this session should it fall asleep in a transaction; for processes of a run."""
    for setting in guards_against_sleep(connection.info.server_version):
        connection.execute(setting)


def guards_against_sleep(server_version: int) -> list[LiteralString]:
    """The statements that make Postgres of this version end a session that fell asleep in a transaction."""
    return [_ASLEEP, _HALF_SENT] if server_version >= _HALF_SENT_FROM else [_ASLEEP]
