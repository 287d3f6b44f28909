"""A worker's memory of tasks and files: bounded, and right also while many ask at once."""

import asyncio
from pathlib import Path

import pytest

from db.connection import Connection
from db.pool import pool
from scheduler.experiment import load
from scheduler.plan import plan
from tests.experiments import write_experiment
from workers import context
from workers.context import Contexts


async def test_what_is_forgotten_meanwhile_is_still_given(
    connection: Connection, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "_MOST_TASKS", 5)
    monkeypatch.setattr(context, "_MOST_FILES", 1)
    loaded = load(write_experiment(tmp_path, tasks=60))
    plan(connection, loaded, key_fingerprint="simulated", base_url="http://127.0.0.1:1")
    tasks = [row["id"] for row in connection.execute("SELECT id FROM task ORDER BY id")]
    async with pool(database_url, size=4, application="test") as connections:
        contexts = Contexts(connections)
        wanted = [tasks[first : first + 10] for first in range(0, 51)]
        found = await asyncio.gather(*(contexts.tasks(some) for some in wanted for _ in range(4)))
    assert all(
        set(given) == set(some)
        for given, some in zip(found, (some for some in wanted for _ in range(4)), strict=True)
    )
