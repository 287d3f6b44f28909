"""What a worker knows of a run: as the others know it, bounded, and right also while many ask at once."""

import asyncio
from pathlib import Path

import pytest

from db import dispatch
from db.connection import Connection
from db.pool import pool
from db.queries import SQL
from scheduler.experiment import load
from scheduler.plan import plan
from tests.experiments import GATEWAY, write_experiment
from workers import context
from workers.context import Contexts, RunContext
from workers.keys import SIMULATED_KEY, read_key


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


@pytest.mark.parametrize("wall_time_s", [900, 5])
async def test_a_program_s_call_may_take_its_wall_time(
    connection: Connection, database_url: str, tmp_path: Path, wall_time_s: float
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


ODD = 'http://[::1]:8080/v1:ä{%s}/a\'b?key="x:y"&'


@pytest.mark.parametrize("simulated", [True, False])
async def test_everybody_calls_a_lane_by_one_name(
    connection: Connection,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulated: bool,
) -> None:
    """Workers, who watches the limiter, and who frees what nobody holds: by another name they would find nothing."""
    monkeypatch.setenv("TEST_GATEWAY_KEY", "sk-test-1234567890")
    gateway = {} if simulated else {"gateway": GATEWAY.format(base_url=ODD.replace('"', '\\"'))}
    models = ["a:b/ü", "sim-small"]
    strategies = (
        f'[[strategies]]\nname = "{model}"\nkind = "single"\nmodel = "{model}"\n' for model in models
    )
    price = '[prices."a:b/ü"]\ninput_usd_per_1m = 1.0\noutput_usd_per_1m = 1.0\n'
    loaded = load(write_experiment(tmp_path, strategies="".join(strategies), more=price, **gateway))
    key = SIMULATED_KEY if simulated else read_key("TEST_GATEWAY_KEY")
    assert loaded.base_url == (None if simulated else ODD)
    planned = plan(
        connection, loaded, key_fingerprint=key.fingerprint, base_url=loaded.base_url or "http://127.0.0.1:1"
    )
    run = await run_context(database_url, planned.run)
    names = [run.lane_name(model) for model in models]
    watched = connection.execute(SQL["run_lanes"], {"run": planned.run}).fetchall()
    assert [(row["model"], row["lane_name"]) for row in watched] == list(zip(models, names, strict=True))
    assert sorted(dispatch.lane_names(connection)) == sorted(names)
