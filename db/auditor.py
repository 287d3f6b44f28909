"""The role `paretoken_auditor`: it can read everything and change nothing."""

from db.connection import Connection
from db.queries import SQL


def grant_auditor(connection: Connection) -> bool:
    """Make the role where it is missing and let it read what is here; False where this user may make no roles."""
    return _said(connection, "grant_auditor")


def auditor_can_read(connection: Connection) -> bool:
    """Whether the role is there and can read the ledger."""
    return _said(connection, "auditor_can_read")


def _said(connection: Connection, statement: str) -> bool:
    row = connection.execute(SQL[statement]).fetchone()
    return bool(row and row["granted"])
