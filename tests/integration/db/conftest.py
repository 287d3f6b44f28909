"""A small run in Postgres, and a worker's connection to it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from db.connection import AsyncConnection, Connection
from tests.store import Store, planned

MakeStore = Callable[..., Store]


@pytest.fixture
async def worker_connection(database_url: str) -> AsyncIterator[AsyncConnection]:
    opened = await psycopg.AsyncConnection.connect(database_url, autocommit=True, row_factory=dict_row)
    async with opened:
        yield opened


@pytest.fixture
def make_store(connection: Connection, worker_connection: AsyncConnection, tmp_path: Path) -> MakeStore:
    def make(**size: Any) -> Store:
        return Store(connection, worker_connection, planned(connection, tmp_path, **size))

    return make


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    """One task, one strategy, one call."""
    return make_store()
