"""Brings a database to the schema that this version works with."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

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
    """Run the missing migrations; give the revision before and after.

    Raises:
        DatabaseUnreachable: nothing answers there.
        NotMigrated: a newer version of this program has been at work there, or the database refuses the change.
    """
    with _connected(database_url) as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
        before = MigrationContext.configure(connection).get_current_revision()
        _refuse_newer(before)
        command.upgrade(_config(connection), "head")
        return before, head()


def require_current(database_url: str) -> None:
    """Raise `NotMigrated` unless the database has exactly this version's schema."""
    with _connected(database_url) as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    _refuse_newer(found)
    if found != head():
        holds = "holds no tables of this program" if found is None else f"is at revision {found}"
        raise NotMigrated(
            f"The database {holds}; this version works with {head()}. Run `paretoken db upgrade`."
        )


def _refuse_newer(found: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is not None and found not in known:
        raise NotMigrated(
            f"The database is at revision {found}, which is newer than this version ({head()}). "
            "Run `pip install --upgrade paretoken`, or name another database."
        )


@contextmanager
def _connected(database_url: str) -> Iterator[Connection]:
    """A connection in one transaction."""
    engine = create_engine(sqlalchemy_url(database_url))
    try:
        with engine.begin() as connection:
            yield connection
    except OperationalError as error:
        raise DatabaseUnreachable(f"No database answers: {str(error.orig).strip()}") from None
    except DBAPIError as error:
        said = str(error.orig).strip().splitlines()[0]
        raise NotMigrated(
            f"The database's schema is not one that this version can bring up to date ({said}). Nothing was "
            "changed. Use the user who owns the tables, or name another database."
        ) from None
    finally:
        engine.dispose()
