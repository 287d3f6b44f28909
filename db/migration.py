"""Brings a database to the schema that this version works with."""

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError

from db.connection import sqlalchemy_url
from db.errors import DatabaseUnreachable, NotMigrated

# Two machines that upgrade at once take turns.
_UPGRADE_LOCK = 0x70617265


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", "db:migrations")
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The revision that this version works with."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def upgrade(database_url: str) -> tuple[str | None, str]:
    """Run the missing migrations; give the revision before and after."""
    engine = create_engine(sqlalchemy_url(database_url))
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
            before = MigrationContext.configure(connection).get_current_revision()
            command.upgrade(_config(connection), "head")
            return before, head()
    except OperationalError as error:
        raise DatabaseUnreachable(f"No database answers: {str(error.orig).strip()}") from None
    finally:
        engine.dispose()


def require_current(database_url: str) -> None:
    """Raise `NotMigrated` unless the database has exactly this version's schema."""
    engine = create_engine(sqlalchemy_url(database_url))
    try:
        with engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
    except OperationalError as error:
        raise DatabaseUnreachable(f"No database answers: {str(error.orig).strip()}") from None
    finally:
        engine.dispose()
    if found != head():
        raise NotMigrated(
            f"The database is at revision {found or 'none'}, this program works with {head()}: "
            "run `paretoken db upgrade` (or install the matching version)."
        )
