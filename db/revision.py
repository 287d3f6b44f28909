"""Whether a database has this version's schema, asked without Alembic: its import takes longer than most commands."""

from importlib.resources import files

import psycopg

from db.connection import connect


def newest() -> str:
    """The revision that this version works with, by the names of the migrations: `0001_initial_schema.py`, …"""
    names = (entry.name for entry in files("db.migrations.versions").iterdir())
    return max(name.partition("_")[0] for name in names if name[0].isdigit())


def is_current(database_url: str) -> bool:
    """Whether nothing has to be migrated. What is wrong otherwise says `db.migration`.

    Raises:
        DatabaseUnreachable: nothing answers there.
    """
    with connect(database_url) as connection:
        try:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        except psycopg.errors.UndefinedTable:
            return False
    return [row["version_num"] for row in found] == [newest()]
