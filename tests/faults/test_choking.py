"""A strategy that fails on what a model said costs its own trial, not the worker."""

import asyncio
import math
from pathlib import Path

import pytest

from db.connection import Connection
from db.pool import pool
from paretoken.simulator import SimulatedGateway
from tests.faults.runs import begin
from workers.advancing import Advancer
from workers.context import Contexts
from workers.strategies import Answer
from workers.strategies.self_consistency import SelfConsistency


def answered(connection: Connection, tmp_path: Path, gateway: SimulatedGateway) -> int:
    """A run of two trials whose first round is answered, so that they are due."""
    run = begin(connection, tmp_path, gateway, tasks=1).run
    connection.execute(
        "UPDATE job SET state = 'ok', attempt = 1, answer_attempt = 1 WHERE run = %s AND round = 1", [run]
    )
    connection.execute(
        "INSERT INTO call (job, attempt, run, model, status, purpose, content, reserve_tokens, worker, "
        "key_fingerprint) SELECT id, 1, run, 'sim-small', 'ok', 'first', 'Answer: 1', 0, 'w', 'k' FROM job"
    )
    connection.execute("UPDATE trial SET due = true WHERE run = %s", [run])
    return run


async def advance(database_url: str) -> int:
    """Advance whatever is due; give how many trials were taken."""
    async with pool(database_url, size=2, application="test") as opened:
        return await Advancer(opened, Contexts(opened), asyncio.Queue(), lease_s=30).advance(None)


async def test_a_strategy_that_raises_leaves_its_trial_to_a_person(
    connection: Connection,
    database_url: str,
    tmp_path: Path,
    gateway: SimulatedGateway,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def choke(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(SelfConsistency, "proceed", choke)
    answered(connection, tmp_path, gateway)
    assert await advance(database_url) == 2
    trials = connection.execute(
        "SELECT strategy.name, trial.state, trial.reason, trial.due FROM trial "
        "JOIN strategy ON strategy.id = trial.strategy ORDER BY strategy.position"
    ).fetchall()
    assert trials == [
        {
            "name": "sc_k3",
            "state": "review",
            "reason": "Its strategy or a check failed: RecursionError: too deep",
            "due": False,
        },
        # The other trial goes on with its second round.
        {"name": "debate_2", "state": "pending", "reason": None, "due": False},
    ]
    assert connection.execute("SELECT count(*) AS n FROM job WHERE round = 2").fetchall() == [{"n": 2}]


async def test_a_step_that_cannot_be_stored_is_left_to_a_person_and_the_others_go_on(
    connection: Connection,
    database_url: str,
    tmp_path: Path,
    gateway: SimulatedGateway,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered(connection, tmp_path, gateway)
    infinite = Answer(text="1", detail={"share": math.inf})
    monkeypatch.setattr(SelfConsistency, "proceed", lambda *_: infinite)
    assert await advance(database_url) == 2
    trials = connection.execute(
        "SELECT strategy.name, trial.state, trial.reason FROM trial "
        "JOIN strategy ON strategy.id = trial.strategy ORDER BY strategy.position"
    ).fetchall()
    assert trials == [
        {
            "name": "sc_k3",
            "state": "review",
            "reason": "Its next step cannot be stored: invalid input syntax for type json",
        },
        {"name": "debate_2", "state": "pending", "reason": None},
    ]


async def test_a_run_that_this_version_cannot_read_is_paused_and_its_trials_stay_due(
    connection: Connection, database_url: str, tmp_path: Path, gateway: SimulatedGateway
) -> None:
    answered(connection, tmp_path, gateway)
    connection.execute("UPDATE run SET experiment = jsonb_set(experiment, '{limits,parallel}', '5')")
    assert await advance(database_url) == 2
    [run] = connection.execute("SELECT state, reason FROM run").fetchall()
    assert run["state"] == "paused"
    assert run["reason"].startswith("A worker cannot read it: TypeError: ")
    assert connection.execute("SELECT count(*) AS n FROM trial WHERE due").fetchall() == [{"n": 2}]
