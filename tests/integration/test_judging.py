"""Judged runs on real servers: as many calls and verdicts as planned, whatever becomes of a worker."""

import signal
from pathlib import Path
from typing import Any

import pytest

from db.connection import Connection
from db.frames import read_judged
from paretoken.live import watch
from paretoken.processes import Crew
from paretoken.simulator import SimulatedGateway
from scheduler.plan import Plan
from scheduler.progress import progress
from tests.runs import ledger, served, start

STRATEGIES = """
[[strategies]]
name = "baseline"
kind = "single"

[[strategies]]
name = "cot"
kind = "chain_of_thought"

[[strategies]]
name = "sc_k3"
kind = "self_consistency"
k = 3
temperature = 0.7
"""
TASKS = 8
PRICES = "".join(
    f'[prices."{model}"]\ninput_usd_per_1m = 1.0\noutput_usd_per_1m = 2.0\n'
    for model in ("sim-large", "sim-judge-a", "sim-judge-noise")
)


def judge(name: str, kind: str, more: str = "", model: str = "sim-large") -> str:
    return f'[[judges]]\nname = "{name}"\nkind = "{kind}"\nmodel = "{model}"\n{more}\n'


def begin(
    connection: Connection, folder: Path, gateway: SimulatedGateway, judges: str, **changes: Any
) -> Plan:
    changes = {"tasks": TASKS, "strategies": STRATEGIES + judges, "more": PRICES} | changes
    return start(connection, folder, gateway, **changes)


def rows_of(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == kind]


def test_every_kind_makes_the_calls_and_verdicts_that_were_planned(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    judges = "".join(
        [
            judge("all", "pairwise"),
            judge("next", "pairwise", 'pairs = "neighbours"'),
            judge("drawn", "pairwise", "pairs = 1"),
            judge("list", "listwise", "passes = 2"),
            judge("points", "rubric"),
        ]
    )
    planned = begin(connection, tmp_path, gateway, judges)
    crew.start(workers=2, concurrency=16)
    seen = watch(connection, "test", alive=crew.require_alive)
    rows = ledger(connection, planned)
    assert seen.trials == {"ok": 24}
    # Of three strategies: three pairs, two neighbours, one drawn; each asked twice. Then two passes, and a score each.
    calls = {"all": 3 * 2, "next": 2 * 2, "drawn": 1 * 2, "list": 2, "points": 3}
    assert {b["judge"]: b["calls"] for b in seen.judging_bounds} == {
        name: number * TASKS for name, number in calls.items()
    }
    assert len(rows_of(rows, "judge")) == sum(calls.values()) * TASKS
    # A ranking of three is three pairs.
    verdicts = connection.execute(
        "SELECT judge, count(*) AS verdicts FROM verdict JOIN judging ON judging.id = verdict.judging GROUP BY judge"
    ).fetchall()
    assert {row["judge"]: row["verdicts"] for row in verdicts} == {
        "all": 3 * TASKS,
        "next": 2 * TASKS,
        "drawn": TASKS,
        "list": 2 * 3 * TASKS,
        "points": 3 * TASKS,
    }
    # Everything that was served has its row, and the run's totals hold all of it.
    assert {row["response_id"]: row["total_tokens"] for row in rows} == served(gateway)
    assert seen.input_tokens + seen.output_tokens == sum(row["total_tokens"] for row in rows)
    judged = rows_of(rows, "judge")
    assert {(row["strategy"], row["winner"], row["opponent"]) for row in judged} == {(None, None, None)}
    # The bound was one.
    for bound in seen.judging_bounds:
        [names] = [name for name in calls if name == bound["judge"]]
        spent = connection.execute(
            "SELECT sum(call.total_tokens) AS tokens, sum(call.cost_usd) AS cost FROM call "
            "JOIN job ON job.id = call.job JOIN judging ON judging.id = job.judging WHERE judging.judge = %s",
            [names],
        ).fetchone()
        assert spent is not None
        assert spent["tokens"] <= bound["most_tokens"]
        assert spent["cost"] <= bound["most_cost_usd"]
    # 3 + 2 + 1 pairs, each 3 strategies; 6 and 3 pairs: a trial is in 2, 1 or 2, 0 to 1, 4 and 2 verdicts.
    for row in rows_of(rows, "generation"):
        assert len(row["winner"]) == len(row["opponent"]) >= 2 + 1 + 0 + 4 + 2
        assert set(row["winner"]) <= {row["strategy"], *row["opponent"], "tie"}
    # A good judge is better than chance at telling right answers from wrong ones.
    told = connection.execute(
        "SELECT count(*) FILTER (WHERE won.confirmed_success) AS right, count(*) AS total FROM verdict "
        "JOIN trial AS won ON won.id = verdict.winner JOIN trial AS lost ON lost.id = verdict.loser "
        "WHERE NOT tie AND won.confirmed_success <> lost.confirmed_success"
    ).fetchone()
    assert told is not None
    assert told["right"] > told["total"] / 2


@pytest.mark.parametrize("strategies", [1, 3])
def test_strategies_tokens_are_the_same_with_and_without_a_judge(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew, strategies: int
) -> None:
    own = "\n[[".join(STRATEGIES.split("\n[[")[: strategies + 1])
    crew.start(workers=1, concurrency=16)
    tokens = []
    for run_id, judges in (("plain", ""), ("judged", judge("list", "listwise", "passes = 1"))):
        planned = begin(
            connection, tmp_path, gateway, "", run_id=run_id, tasks=4, strategies=own + judges, top="seed = 7"
        )
        watch(connection, run_id, alive=crew.require_alive)
        rows = ledger(connection, planned)
        tokens.append([row["input_tokens"] for row in rows_of(rows, "generation")])
        # One answer to a task is nothing to compare.
        assert len(rows_of(rows, "judge")) == (4 if judges and strategies > 1 else 0)
    assert tokens[0] == tokens[1]


def test_a_judge_who_prefers_the_first_place_gives_ties_and_is_found_out(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    judges = judge("biased", "pairwise", model="sim-judge-a") + judge(
        "deaf", "pairwise", model="sim-judge-noise"
    )
    planned = begin(connection, tmp_path, gateway, judges, tasks=4)
    crew.start(workers=2, concurrency=16)
    seen = watch(connection, "test", alive=crew.require_alive)
    assert seen.trials == {"ok": 12}
    assert seen.judgings == {"biased": {"ok": 12}, "deaf": {"failed": 12}}
    judged = read_judged(connection, run=planned.run)
    quality = {row["judge"]: row for row in judged.quality.to_dicts()}
    assert quality["biased"] == {
        "judge": "biased", "judgings": 12, "calls": 24, "verdicts": 12, "ties": 12, "unparsable": 0, "failed": 0,
        "position_bias": 1.0, "agreement": 0.0,
    }  # fmt: skip
    assert quality["deaf"] == {
        "judge": "deaf", "judgings": 12, "calls": 24, "verdicts": 0, "ties": 0, "unparsable": 24, "failed": 0,
        "position_bias": None, "agreement": None,
    }  # fmt: skip
    assert {
        row["winner"] if isinstance(row["winner"], str) else tuple(row["winner"])
        for row in ledger(connection, planned)
        if row["kind"] == "generation"
    } == {("tie", "tie")}


def test_a_worker_killed_in_mid_judging_loses_no_verdict(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    gateway.set_faults([{"kind": "slow_body", "probability": 0.5, "duration_s": 0.3}])
    planned = begin(connection, tmp_path, gateway, judge("all", "pairwise"), tasks=20)
    crew.start(workers=2, concurrency=8)
    victim = crew.children[1]

    def kill_in_the_middle() -> None:
        done = progress(connection, "test").judgings.get("all", {}).get("ok", 0)
        if victim.poll() is None and done >= 10:
            victim.send_signal(signal.SIGKILL)

    seen = watch(connection, "test", alive=kill_in_the_middle)
    assert victim.wait() == -signal.SIGKILL
    rows = ledger(connection, planned)
    assert (seen.trials, seen.judgings) == ({"ok": 60}, {"all": {"ok": 60}})
    used = [row for row in rows_of(rows, "judge") if row["used"]]
    assert len(used) == 2 * 60
    assert read_judged(connection, run=planned.run).verdicts.height == 60
    unknown = [row for row in rows if row["status"] == "unknown"]
    assert len(unknown) <= 8


def test_a_judge_that_fails_is_no_failure_of_the_trials(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    # The reply is cut: there is no room for the line that counts.
    planned = begin(connection, tmp_path, gateway, judge("mute", "rubric", "max_tokens = 1"), tasks=3)
    crew.start(workers=1, concurrency=8)
    seen = watch(connection, "test", alive=crew.require_alive)
    assert (seen.state, seen.trials, seen.judgings) == ("finished", {"ok": 9}, {"mute": {"failed": 3}})
    [quality] = read_judged(connection, run=planned.run).quality.to_dicts()
    assert (quality["failed"], quality["unparsable"], quality["verdicts"]) == (9, 0, 0)
    assert all(row["winner"] is None for row in ledger(connection, planned))
