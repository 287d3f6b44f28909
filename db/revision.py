"""Whether a database has this version's schema, asked without Alembic: its import takes longer than most commands."""

from pathlib import Path

from db.reader import Reader


def newest() -> str:
    """The revision that this version works with, by the names of the migrations: `0001_initial_schema.py`, …"""
    migrations = Path(__file__).with_name("migrations") / "versions"
    return max(path.name.partition("_")[0] for path in migrations.glob("[0-9]*.py"))


def is_current(database_url: str) -> bool:
    """Whether nothing has to be migrated. What is wrong otherwise says `db.migration`.

    Raises:
        DatabaseUnreachable: nothing answers there.
    """
    import psycopg

    from db.connection import connect

    with connect(database_url) as connection:
        try:
            return has_newest(connection)
        except psycopg.errors.UndefinedTable:
            return False


def has_newest(connection: Reader) -> bool:
    """The same over a connection. Where no migration was ever made it raises what its driver does."""
    found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    return [row["version_num"] for row in found] == [newest()]
