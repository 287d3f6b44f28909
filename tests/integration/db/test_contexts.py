"""What a worker knows of a run: as the others know it, bounded, and right also while many ask at once."""

import asyncio
from pathlib import Path

import pytest

from db.connection import Connection
from db.pool import pool
from scheduler.experiment import load
from scheduler.plan import plan
from tests.experiments import GATEWAY, write_experiment
from workers import context
from workers.context import Contexts, RunContext


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


async def run_context(database_url: str, run: int) -> RunContext:
    async with pool(database_url, size=1, application="test") as connections:
        return await Contexts(connections).run(run)


@pytest.mark.parametrize(("wall_time_s", "longest_s"), [(900, 900), (5, 20)])
async def test_a_program_s_call_may_take_its_wall_time(
    connection: Connection, database_url: str, tmp_path: Path, wall_time_s: float, longest_s: float
) -> None:
    path = write_experiment(
        tmp_path,
        gateway=GATEWAY.format(base_url="http://127.0.0.1:1"),
        strategies='[[strategies]]\nname = "plain"\nkind = "single"\n[[strategies]]\nname = "program"\n'
        'kind = "command"\nclient = "generic"\ncommand = ["true"]\nmax_total_tokens = 100\n'
        f"wall_time_s = {wall_time_s}\n",
        top="allow_commands = true",
    )
    loaded = load(path)
    planned = plan(connection, loaded, key_fingerprint="k", base_url=loaded.base_url)
    run = await run_context(database_url, planned.run)
    rows = connection.execute("SELECT id, name FROM strategy").fetchall()
    deadlines_s = {row["name"]: run.deadline_s(row["id"]) for row in rows}
    assert deadlines_s == {"plain": 20, "program": wall_time_s}
    assert run.deadline_s(None) == 20  # a judge's
    assert loaded.deadline_s == longest_s
