"""The ledger is append-only for everybody, and the auditor's role can read everything and change nothing."""

import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.rows import dict_row

from db.connection import AsyncConnection, Connection, connect
from tests.integration.db.conftest import MakeStore
from tests.store import Store

REFUSED = psycopg.errors.RestrictViolation

# What a session may try on a settled call, and on what gives it its name.
ON_A_SETTLED_CALL = [
    "UPDATE call SET total_tokens = 0",
    "UPDATE call SET content = content",
    "UPDATE call SET status = 'started'",
    "UPDATE call SET status = 'unknown'",
    "UPDATE call SET cost_usd = NULL, message = 'mended'",
    "DELETE FROM call",
    "TRUNCATE call",
    "TRUNCATE run CASCADE",
    "UPDATE job SET answer_attempt = NULL",
    "UPDATE job SET sample = sample + 1",
    "UPDATE run SET run_id = 'other'",
    "UPDATE task SET task_id = 'other'",
    "UPDATE strategy SET name = 'other'",
    "UPDATE trial SET repeat = 2",
]
# Nor what belongs to a call that is open still.
ON_AN_OPEN_CALL = [
    f"UPDATE call SET status = 'ok', {change}"
    for change in (
        "run = run + 1",
        "model = 'other'",
        "worker = 'other'",
        "key_fingerprint = 'other'",
        "attempt = 9",
        "turn = 2",
        "purpose = 'retry'",
        "retry_reason = 'why'",
        "reserve_tokens = 0",
        "reserve_cost_usd = 0",
        "started_at = started_at - interval '1 day'",
    )
] + ["UPDATE call SET message = 'noted'"]


def refused(connection: Connection, statement: str) -> None:
    with pytest.raises(REFUSED, match="append-only"):
        connection.execute(statement)


async def test_a_settled_call_never_changes(store: Store) -> None:
    await store.to("answered")
    before = store.everything()
    for statement in ON_A_SETTLED_CALL:
        refused(store.connection, statement)
    assert store.everything() == before


async def test_nor_does_it_for_a_superuser_in_replica_mode(store: Store) -> None:
    await store.to("answered")
    store.connection.execute("SET session_replication_role = replica")
    for statement in ON_A_SETTLED_CALL:
        refused(store.connection, statement)
    ordinary = store.connection.execute(
        "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'A'"
    ).fetchall()
    assert ordinary == []


async def test_a_workers_connection_cannot_either(store: Store) -> None:
    await store.to("answered")
    for statement in ON_A_SETTLED_CALL[:6]:
        with pytest.raises(REFUSED, match="append-only"):
            await store.worker.execute(statement)


async def test_what_a_call_belongs_to_never_changes(store: Store) -> None:
    await store.to("started")
    for statement in ON_AN_OPEN_CALL:
        refused(store.connection, statement)


async def test_unknown_becomes_ok_or_error_once(store: Store) -> None:
    await store.to("reaped")
    assert store.call()["status"] == "unknown"
    refused(store.connection, "UPDATE call SET message = 'still unknown'")
    await store.settle()
    assert store.call()["status"] == "ok"
    refused(store.connection, "UPDATE call SET status = 'error'")
    refused(store.connection, "UPDATE call SET status = 'unknown'")


def test_the_record_of_archived_runs_is_kept_too(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO archive (run, run_id, calls, total_tokens, sha256) VALUES (1, 'r', 0, 0, '')"
    )
    for statement in ("UPDATE archive SET sha256 = 'x'", "DELETE FROM archive", "TRUNCATE archive"):
        refused(connection, statement)


@pytest.fixture
def worker_role(connection: Connection, database_url: str) -> Iterator[str]:
    """URL of a login with all that docs/audit.md gives to workers."""
    name, password = f"worker_{secrets.token_hex(4)}", secrets.token_hex(8)
    connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
    connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}")
    connection.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name}")
    place = database_url.partition("@")[2]
    yield f"postgresql://{name}:{password}@{place}"
    connection.execute(f"DROP OWNED BY {name}")
    connection.execute(f"DROP ROLE {name}")


async def test_a_worker_of_its_own_role_can_work_and_no_more(make_store: MakeStore, worker_role: str) -> None:
    store = make_store()
    opened = await psycopg.AsyncConnection[dict[str, object]].connect(
        worker_role, autocommit=True, row_factory=dict_row
    )
    async with opened as own:
        store.worker = own
        await store.to("answered")
        assert (store.call()["status"], store.job()["state"]) == ("ok", "ok")
        await refuses(own, "DELETE FROM call")
        # The record that would let the owner delete it.
        await own.execute(
            "INSERT INTO archive (run, run_id, calls, total_tokens, sha256) SELECT id, run_id, 0, 0, '' FROM run"
        )
        await refuses(own, "DELETE FROM call")
        for function in ("archive_run('test', 1, 15, '')", "grant_auditor()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await own.execute(f"SELECT {function}")


async def refuses(connection: AsyncConnection, statement: str) -> None:
    with pytest.raises(REFUSED, match="append-only"):
        await connection.execute(statement)


AUDITOR_MAY_NOT = [
    "INSERT INTO tally (run, owner) VALUES (1, 'x')",
    "INSERT INTO archive (run, run_id, calls, total_tokens, sha256) VALUES (1, 'r', 0, 0, '')",
    "UPDATE run SET state = 'paused'",
    "UPDATE call SET status = 'error'",
    "DELETE FROM worker",
    "DELETE FROM call",
    "TRUNCATE call",
    "TRUNCATE worker",
    "CREATE TABLE mine (x int)",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE SCHEMA mine",
    "CREATE ROLE mine",
    "DROP TABLE call",
    "DROP VIEW audit_calls",
    "ALTER TABLE call DISABLE TRIGGER call_settled_once",
    "SELECT id FROM run FOR UPDATE",
    "SELECT nextval('run_id_seq')",
    "SELECT archive_run('r', 0, 0, '')",
    "SELECT grant_auditor()",
]


def test_the_auditor_changes_nothing_and_reads_everything(connection: Connection) -> None:
    connection.execute("SET ROLE paretoken_auditor")
    for statement in AUDITOR_MAY_NOT:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)
    names = connection.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    assert {"call", "run", "ledger", "audit_calls", "audit_strategy", "alembic_version"} <= {
        row["relname"] for row in names
    }
    for row in names:
        connection.execute(f"SELECT * FROM {row['relname']} LIMIT 1")


def test_no_column_holds_a_key(connection: Connection) -> None:
    rows = connection.execute(
        "SELECT DISTINCT column_name FROM information_schema.columns WHERE table_schema = 'public' "
        "AND (column_name LIKE '%key%' OR column_name LIKE '%secret%' OR column_name LIKE '%password%')"
    ).fetchall()
    assert [row["column_name"] for row in rows] == ["key_fingerprint"]


def grant_function(connection: Connection, role: str) -> None:
    """The migration's function for a role of another name, so that it can be missing while other tests run."""
    row = connection.execute("SELECT pg_get_functiondef('grant_auditor'::regproc) AS text").fetchone()
    assert row is not None
    connection.execute(
        row["text"].replace("paretoken_auditor", role).replace("public.grant_auditor", "public.grant_other")
    )


@pytest.fixture
def other_role(connection: Connection) -> Iterator[str]:
    role = f"auditor_{secrets.token_hex(4)}"
    grant_function(connection, role)
    yield role
    connection.execute(f"DROP OWNED BY {role}")
    connection.execute(f"DROP ROLE {role}")


def test_two_databases_may_make_the_role_at_once(
    connection: Connection, database_url: str, other_role: str
) -> None:
    with connect(database_url) as second, ThreadPoolExecutor(max_workers=1) as threads:
        with connection.transaction():
            assert connection.execute("SELECT grant_other() AS made").fetchone() == {"made": True}
            later = threads.submit(lambda: second.execute("SELECT grant_other() AS made").fetchone())
            wait_until_blocked(connection, second.info.backend_pid)
        assert later.result() == {"made": True}
    assert connection.execute("SELECT grant_other() AS made").fetchone() == {"made": True}
    granted = f"SELECT has_table_privilege('{other_role}', 'audit_calls', 'SELECT') AS may"
    assert connection.execute(granted).fetchone() == {"may": True}


def wait_until_blocked(connection: Connection, process: int) -> None:
    asked = threading.Event()
    while not asked.wait(0.01):
        row = connection.execute("SELECT cardinality(pg_blocking_pids(%s)) AS n", [process]).fetchone()
        if row is not None and row["n"]:
            return


def test_who_may_make_no_role_is_told_so(connection: Connection, worker_role: str, other_role: str) -> None:
    connection.execute("GRANT EXECUTE ON FUNCTION grant_other TO PUBLIC")
    with connect(worker_role) as own:
        assert own.execute("SELECT grant_other() AS made").fetchone() == {"made": False}
    assert connection.execute("SELECT grant_other() AS made").fetchone() == {"made": True}


@pytest.fixture
def maker(connection: Connection, database_url: str) -> Iterator[str]:
    """URL of an owner of tables who may create roles and is no superuser."""
    name, password = f"maker_{secrets.token_hex(4)}", secrets.token_hex(8)
    connection.execute(f"CREATE ROLE {name} LOGIN CREATEROLE PASSWORD '{password}'")
    connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
    yield f"postgresql://{name}:{password}@{database_url.partition('@')[2]}"
    connection.execute(f"DROP OWNED BY {name} CASCADE")
    connection.execute(f"DROP ROLE {name}")


def test_who_makes_the_role_may_take_it(connection: Connection, maker: str, other_role: str) -> None:
    connection.execute("GRANT EXECUTE ON FUNCTION grant_other TO PUBLIC")
    with connect(maker) as own:
        own.execute(f"SET search_path = {own.info.user}")
        own.execute("CREATE TABLE mine (x int)")
        for _ in range(2):
            assert own.execute("SELECT public.grant_other() AS made").fetchone() == {"made": True}
        own.execute(f"SET ROLE {other_role}")
        assert own.execute("SELECT count(*) AS n FROM mine").fetchone() == {"n": 0}
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            own.execute("INSERT INTO mine VALUES (1)")
