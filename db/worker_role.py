"""The role `paretoken_worker`: it can do all that a run needs, and cannot change what the ledger's triggers keep."""

from psycopg import sql

from db.auditor import auditor_can_read
from db.connection import Connection
from db.queries import SQL

ROLE = "paretoken_worker"


def let_workers_in(connection: Connection, password: str) -> None:
    """Make the role where it is missing, give it this password, and let it work with every table there is now.

    It may take the auditor's role, which the monitor does. To be done again after a migration.

    Raises:
        psycopg.errors.InsufficientPrivilege: this user may make no roles, or does not own the tables.
    """
    # The server sees a digest alone: statements are logged.
    digest = connection.pgconn.encrypt_password(password.encode(), ROLE.encode(), b"scram-sha-256").decode()
    with connection.transaction():
        row = connection.execute(SQL["worker_role_exists"]).fetchone()
        if row is None or not row["there"]:
            connection.execute(SQL["make_worker_role"])
        connection.execute(
            sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(ROLE), sql.Literal(digest))
        )
        connection.execute(SQL["grant_worker_tables"])
        connection.execute(SQL["grant_worker_sequences"])
        if auditor_can_read(connection):
            connection.execute(f"GRANT paretoken_auditor TO {ROLE}")
