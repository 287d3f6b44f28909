"""`paretoken run examples/strategies.toml`: every kind makes the calls that it says; each token is accounted for."""

import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from db.connection import Connection
from scheduler.experiment import load
from tests.acceptance.conftest import CommandLine
from workers.strategies import KINDS

EXAMPLES = Path(__file__).parents[2] / "examples"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_all_strategies_over_the_arena(paretoken: CommandLine, connection: Connection) -> None:
    shutil.copytree(EXAMPLES, paretoken.folder / "examples")
    file = paretoken.folder / "examples" / "strategies.toml"
    done = paretoken("run", file, "--no-page", "--out", "out")
    assert done.returncode == 0, done.stderr
    rows = lines(paretoken.folder / "out" / "ledger.jsonl")
    planned = {one.name: one.strategy for one in load(file).strategies}
    # External programs have an example of their own.
    assert {one.kind for one in planned.values()} == set(KINDS) - {"command"}

    # Calls per trial are what the kind says, failed attempts aside.
    used = Counter((row["strategy"], row["task_id"]) for row in rows if row["used"])
    for name, built in planned.items():
        counts = {calls for (strategy, _), calls in used.items() if strategy == name}
        fewest, most = built.calls
        assert counts, name
        assert fewest <= min(counts) <= max(counts) <= most, name
    assert len(used) == len(planned) * 28
    # Two debaters, two rounds, and an aggregator where they disagree: both happen.
    assert {calls for (strategy, _), calls in used.items() if strategy == "debate_2"} == {4, 5}
    # List, describe, query, answer.
    assert {calls for (strategy, _), calls in used.items() if strategy == "agent"} == {4}

    # Tokens per strategy are what the gateway has served, answer by answer.
    served = {
        row["response_id"]: row for row in lines(paretoken.folder / "out" / "served.jsonl") if row["served"]
    }
    assert len(served) == len([row for row in rows if row["response_id"]])
    tokens: defaultdict[str, int] = defaultdict(int)
    billed: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        tokens[row["strategy"]] += row["total_tokens"]
        billed[row["strategy"]] += served[row["response_id"]]["total_tokens"]
    assert tokens == billed

    the_debaters_read_each_other(connection)
    the_arena_agents_use_tools(connection)


def the_debaters_read_each_other(connection: Connection) -> None:
    """Round 2 holds the other's round 1, and began when all of round 1 was settled."""
    calls = connection.execute(
        "SELECT job.trial, job.round, job.sample, job.request, call.content, call.started_at, call.finished_at "
        "FROM job JOIN call ON call.job = job.id AND call.attempt = job.answer_attempt "
        "JOIN trial ON trial.id = job.trial JOIN strategy ON strategy.id = trial.strategy "
        "WHERE strategy.name = 'debate_2'"
    ).fetchall()
    by_slot = {(call["trial"], call["round"], call["sample"]): call for call in calls}
    trials = {call["trial"] for call in calls}
    assert len(trials) == 28
    for trial in trials:
        first = [by_slot[trial, 1, sample] for sample in (1, 2)]
        second = [by_slot[trial, 2, sample] for sample in (1, 2)]
        for own, other in ((0, 1), (1, 0)):
            prompt = second[own]["request"]["messages"][-1]["content"]
            own_part, others = prompt.split("These are the answers of the others:")
            assert first[own]["content"] in own_part
            assert first[other]["content"] in others
        assert max(call["finished_at"] for call in first) <= min(call["started_at"] for call in second)


def the_arena_agents_use_tools(connection: Connection) -> None:
    asked = connection.execute(
        "SELECT call.tool_calls -> 0 -> 'function' ->> 'name' AS tool, count(*) AS calls FROM call "
        "WHERE call.tool_calls IS NOT NULL GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert {row["tool"]: row["calls"] for row in asked} == {
        "describe_csv": 28,
        "list_files": 28,
        "query_csv": 28,
    }


def test_strategies_are_listed_with_parameters_and_calls(command_line: CommandLine) -> None:
    listed = {kind["kind"]: kind for kind in json.loads(command_line.must("strategies", "--json"))}
    assert list(listed) == list(KINDS)
    assert listed["debate"]["calls"] == "debaters × rounds, + 1 when the first place of the vote is shared"
    [k] = [parameter for parameter in listed["self_consistency"]["parameters"] if parameter["name"] == "k"]
    assert k == {"name": "k", "required": True, "about": "Number of samples."}
    text = command_line.must("strategies")
    for kind in KINDS:
        assert f"\n{kind}: " in f"\n{text}"
