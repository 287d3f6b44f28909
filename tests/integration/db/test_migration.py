"""Migrations from empty make exactly the tables of `db.tables`, and go back again."""

import threading
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text

from db.connection import sqlalchemy_url
from db.errors import DatabaseUnreachable, NotMigrated
from db.migration import _config, head, require_current, upgrade
from db.revision import is_current, newest
from db.tables import metadata


def objects(database_url: str) -> set[str]:
    """Tables, views, indexes, sequences and functions of the schema."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        ).fetchall()
    return {row[0] for row in rows}


def test_up_from_empty_equals_the_tables(empty_database_url: str) -> None:
    assert upgrade(empty_database_url) == (None, head())
    engine = create_engine(sqlalchemy_url(empty_database_url))
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
    engine.dispose()


def test_the_quick_look_agrees_with_alembic(empty_database_url: str) -> None:
    assert newest() == head()
    assert not is_current(empty_database_url)
    upgrade(empty_database_url)
    assert is_current(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert not is_current(empty_database_url)


DETAILS = [
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND conname NOT LIKE 'alembic%' ORDER BY 1, 2",
    "SELECT indexname, indexdef FROM pg_indexes "
    "WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1",
    "SELECT relname, reloptions, obj_description(oid) FROM pg_class WHERE relkind = 'r' "
    "AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version' ORDER BY 1",
    "SELECT attrelid::regclass::text, attname, attnotnull, attidentity, col_description(attrelid, attnum) "
    "FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE relkind = 'r' AND attnum > 0 "
    "AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version' ORDER BY 1, 2",
]


def details(database_url: str) -> list[list[tuple[object, ...]]]:
    with psycopg.connect(database_url) as connection:
        return [connection.execute(query).fetchall() for query in DETAILS]


def test_checks_comments_and_storage_equal_the_tables(empty_database_url: str) -> None:
    """What alembic does not compare."""
    upgrade(empty_database_url)
    migrated = details(empty_database_url)
    engine = create_engine(sqlalchemy_url(empty_database_url))
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
        metadata.create_all(connection)
    engine.dispose()
    assert all(migrated)
    assert migrated == details(empty_database_url)


def test_down_leaves_nothing_and_up_again_works(empty_database_url: str) -> None:
    upgrade(empty_database_url)
    full = objects(empty_database_url)
    engine = create_engine(sqlalchemy_url(empty_database_url))
    with engine.begin() as connection:
        command.downgrade(_config(connection), "base")
    engine.dispose()
    assert objects(empty_database_url) <= {"alembic_version", "alembic_version_pkc"}
    upgrade(empty_database_url)
    assert objects(empty_database_url) == full


def test_a_second_upgrade_changes_nothing(empty_database_url: str) -> None:
    upgrade(empty_database_url)
    before = objects(empty_database_url)
    assert upgrade(empty_database_url) == (head(), head())
    assert objects(empty_database_url) == before


def test_two_upgrades_at_once_take_turns(empty_database_url: str) -> None:
    ends: list[tuple[str | None, str]] = []
    threads = [threading.Thread(target=lambda: ends.append(upgrade(empty_database_url))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends, key=str) == [(head(), head()), (head(), head()), (None, head())]
    require_current(empty_database_url)


def test_a_database_without_schema_says_what_to_run(empty_database_url: str) -> None:
    with pytest.raises(NotMigrated, match=r"holds no tables of this program.*`paretoken db upgrade`"):
        require_current(empty_database_url)


def set_revision(database_url: str, revision: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [revision])


def test_a_newer_schema_says_to_install_the_newer_program(database_url: str) -> None:
    set_revision(database_url, "9999")
    for look in (require_current, upgrade):
        with pytest.raises(NotMigrated, match=r"revision 9999.*newer.*pip install --upgrade paretoken"):
            look(database_url)


def test_no_server_is_said_without_the_password() -> None:
    url = "postgresql://someone:secret@127.0.0.1:1/nothing"
    for look in (require_current, upgrade):
        with pytest.raises(DatabaseUnreachable, match="No database answers") as refused:
            look(url)
        assert "secret" not in str(refused.value)


def test_every_migration_is_in_the_package() -> None:
    folder = Path("db/migrations/versions")
    revisions = [path.stem.split("_")[0] for path in sorted(folder.glob("[0-9]*.py"))]
    assert revisions == [f"{number:04d}" for number in range(1, len(revisions) + 1)]
    assert revisions[-1] == head()


def test_a_database_that_was_made_between_two_revisions(empty_database_url: str) -> None:
    """What a revision adds may be there already; what else stands in its way is said in one line."""
    upgrade(empty_database_url)
    full = details(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
        assert upgrade(empty_database_url) == ("0003", head())
        assert details(empty_database_url) == full
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
        connection.execute("ALTER TABLE worker RENAME TO labourer")
        with pytest.raises(NotMigrated, match=r'"worker" does not exist\)\. Nothing was changed\. [^\n]*$'):
            upgrade(empty_database_url)
