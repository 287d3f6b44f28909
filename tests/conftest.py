"""Real servers for the tests: one Postgres and one Valkey a session, a fresh database and broker a test.

The servers start when the first test asks for them, so that unit tests need none; all xdist processes share them.
Where they cannot start, tests are skipped on a developer's machine and fail in CI.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from db.connection import Connection, connect
from db.migration import upgrade
from paretoken import servers
from paretoken.errors import ParetokenError
from paretoken.servers import Servers

# Fixtures `browser` and `tab`.
pytest_plugins = ["tests.browser"]

_FOLDER = "PARETOKEN_TEST_SERVERS"
_TEMPLATE = "template_paretoken"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="paretoken-tests-"))
        # As root the servers may run as another user, who must reach their data.
        folder.chmod(0o755)
        os.environ[_FOLDER] = str(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = Path(os.environ.pop(_FOLDER))
        servers.stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def embedded() -> Servers:
    """The session's servers."""
    try:
        return servers.start(Path(os.environ[_FOLDER]))
    except ParetokenError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the embedded servers do not start here: {error}")


@pytest.fixture(scope="session")
def template(embedded: Servers) -> str:
    """Name of a migrated database that tests copy."""
    with psycopg.connect(embedded.database_url, autocommit=True) as connection:
        # Several xdist processes come here at once; the first one makes it.
        connection.execute("SELECT pg_advisory_lock(1)")
        made = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_TEMPLATE]).fetchone()
        if not made:
            connection.execute(f"CREATE DATABASE {_TEMPLATE}")
            upgrade(named(embedded.database_url, _TEMPLATE))
    return _TEMPLATE


def named(url: str, database: str) -> str:
    """The same server, another database."""
    return url.rpartition("/")[0] + f"/{database}"


@pytest.fixture
def empty_database_url(embedded: Servers, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new database without any table."""
    yield from _database(embedded, request, "template1")


@pytest.fixture
def database_url(embedded: Servers, template: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new migrated database."""
    yield from _database(embedded, request, template)


def _database(embedded: Servers, request: pytest.FixtureRequest, template: str) -> Iterator[str]:
    name = f"test_{os.getpid()}_{abs(hash(request.node.nodeid)):x}"
    with psycopg.connect(embedded.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield named(embedded.database_url, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def broker_url(embedded: Servers, worker_id: str) -> Iterator[str]:
    """An empty database of the broker, one for each xdist process."""
    number = 1 if worker_id == "master" else int(worker_id.removeprefix("gw")) + 1
    url = named(embedded.broker_url, str(number))
    broker = redis.Redis.from_url(url)
    broker.flushdb()
    yield url
    broker.flushdb()
    broker.close()
