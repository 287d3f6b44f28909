"""Programs as strategies of a run on real servers: what they are given, how they fail, what the ledger says of it."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from db.connection import Connection
from db.ledger import export_lines
from paretoken.live import watch
from paretoken.processes import Crew
from scheduler.errors import ExperimentInvalid
from scheduler.experiment import load
from scheduler.plan import Plan, plan
from tests.faults.invariants import check_store
from workers.keys import read_key

TASK = {
    "id": "birds",
    "goal": "How many birds are there? Write it to result.json too; $(touch /tmp/x) `touch y`",
    "files": ["birds.csv"],
    "checks": [
        {"kind": "number", "value": 2},
        {"kind": "file_json", "file": "result.json", "fields": {"count": 2}},
    ],
}
USAGE = {"input_tokens": 900, "output_tokens": 60}
SEEN = "import json, os, sys; json.dump([sys.stdin.read(), dict(os.environ), os.listdir()], open('seen.json', 'w'))"
COUNT = "n = len(open('birds.csv').readlines()) - 1; json.dump({'count': n}, open('result.json', 'w'))"
TURNS = f"print(json.dumps({{'answer': str(n), 'turns': [{{'usage': {USAGE}}}, {{'usage': {USAGE}}}]}}))"
PROGRAMS = {
    "counts": f"{SEEN}\n{COUNT}\n{TURNS}",
    "hangs": "import time; print('thinking', flush=True); time.sleep(1000)",
    "garbage": "print('I would rather not say.')",
    "zeros": "print('{\"answer\": \"2\", \"usage\": {\"input_tokens\": 0, \"output_tokens\": 0}, \"cost_usd\": 0.07}')",
    "greedy": "print('{\"answer\": \"2\", \"usage\": {\"input_tokens\": 6000, \"output_tokens\": 1}}')",
}  # fmt: skip
HEAD = """
tasks = "tasks.jsonl"
allow_commands = true
[gateway]
base_url = "http://127.0.0.1:9/v1"
api_key_env = "{key}"
[model]
name = "m"
[limits]
concurrency = 4
[prices."m"]
input_usd_per_1m = 1.0
output_usd_per_1m = 2.0
"""


def strategy(name: str, command: list[str], more: str = "") -> str:
    return (
        f'[[strategies]]\nname = "{name}"\nkind = "command"\nclient = "generic"\n'
        f"command = {json.dumps(command)}\nmax_total_tokens = 5000\n{more}\n"
    )


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def planned(connection: Connection, folder: Path, key: str, strategies: str, *, run_id: str = "test") -> Plan:
    (folder / "birds.csv").write_text("species\nAdelie\nGentoo\n")
    (folder / "tasks.jsonl").write_text(json.dumps(TASK))
    (folder / "experiment.toml").write_text(HEAD.format(key=key) + strategies)
    loaded = load(folder / "experiment.toml", run_id=run_id)
    return plan(connection, loaded, key_fingerprint=read_key(key).fingerprint, base_url=loaded.base_url)


def rows_of(connection: Connection, run: Plan) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export_lines(connection, run=run.run)]


def test_programs_of_all_sorts(connection: Connection, tmp_path: Path, key: str, crew: Crew) -> None:
    limit = {"hangs": "wall_time_s = 1"}
    run = planned(
        connection, tmp_path, key,
        "".join(strategy(name, python(code), limit.get(name, "")) for name, code in PROGRAMS.items()),
    )  # fmt: skip
    crew.start(workers=1, concurrency=4)
    assert watch(connection, "test", alive=crew.require_alive).state == "finished"

    trials = {
        row.pop("name"): row
        for row in connection.execute(
            "SELECT strategy.name, trial.state, trial.confirmed_success, trial.reason FROM trial "
            "JOIN strategy ON strategy.id = trial.strategy"
        ).fetchall()
    }
    assert {name: (row["state"], row["confirmed_success"]) for name, row in trials.items()} == {
        "counts": ("ok", True),
        "hangs": ("failed", None),
        "garbage": ("failed", None),
        "zeros": ("ok", False),  # right, but nothing was written
        "greedy": ("failed", False),
    }
    assert trials["greedy"]["reason"] == "tokens: 6,001 tokens used, max_total_tokens = 5,000"
    name = sys.executable
    assert trials["hangs"]["reason"] == (
        f"timeout in round 1, sample 1: {name} had not ended after wall_time_s = 1 and was stopped. "
        "Its last words: thinking"
    )
    assert trials["garbage"]["reason"] == (
        f"bad_response in round 1, sample 1: {name} ended with exit code 0, but it printed no JSON object. "
        "Its last words: I would rather not say"
    )

    told = ("strategy", "turn", "status", "error", "used", "total_tokens", "cost_usd", "finish_reason")
    assert sorted((tuple(row[field] for field in told) for row in rows_of(connection, run)), key=str) == [
        # 900 x $1 + 60 x $2 a million
        ("counts", 1, "ok", None, True, 960, 0.00102, "turn"),
        ("counts", 2, "ok", None, True, 960, 0.00102, "turn"),
        ("garbage", 1, "unknown", "bad_response", False, None, None, "run"),
        ("greedy", 1, "ok", None, True, 6001, 0.006002, "run"),
        ("hangs", 1, "unknown", "timeout", False, None, None, "run"),
        ("zeros", 1, "ok", None, True, None, None, "run"),
    ]
    check_store(connection, run.run)
    _was_given(connection, key)
    _misses(connection, tmp_path, key, crew)


def _was_given(connection: Connection, key: str) -> None:
    """The task as it is, and of the worker's environment what a program needs."""
    files = connection.execute("SELECT name, content FROM trial_file").fetchall()
    contents = {row["name"]: json.loads(row["content"]) for row in files}
    prompt, environment, folder = contents["seen.json"]
    assert contents["result.json"] == {"count": 2}
    assert prompt == f"{TASK['goal']}\n\nFiles in the present folder:\n- birds.csv"
    assert set(folder) <= {"birds.csv", "seen.json"}
    assert environment["OPENAI_BASE_URL"] == "http://127.0.0.1:9/v1"
    assert environment["OPENAI_API_KEY"] == "[key]"  # it had it; what is kept has not
    assert environment["PARETOKEN_MODEL"] == "m"
    assert environment["HOME"] != os.environ["HOME"]
    assert not {key, "PARETOKEN_DATABASE_URL", "PARETOKEN_BROKER_URL"} & environment.keys()
    assert not Path(environment["HOME"]).exists()  # the folder is gone


def _misses(connection: Connection, folder: Path, key: str, crew: Crew) -> None:
    """A program that is not there pauses the run."""
    run = planned(connection, folder, key, strategy("missing", ["no-such-agent"]), run_id="missing")
    seen = watch(connection, "missing", alive=crew.require_alive)
    assert seen.state == "paused"
    assert seen.reason is not None
    assert seen.reason.startswith("no-such-agent is not installed on ")
    assert seen.reason.endswith("in the strategy's command. Then: paretoken resume missing")
    [row] = rows_of(connection, run)
    assert (row["status"], row["error"], row["total_tokens"]) == ("error", "program_missing", None)
    check_store(connection, run.run)


def test_a_worker_that_is_stopped_ends_its_program_and_says_so(
    connection: Connection, tmp_path: Path, key: str, crew: Crew
) -> None:
    """The first time it stays; the second time, in another worker, it answers."""
    alive, once = tmp_path / "alive", tmp_path / "once"
    os.mkfifo(alive)
    code = (
        f"import os, time\nif not os.path.exists({str(once)!r}):\n    open({str(once)!r}, 'w').close()\n"
        f"    f = open({str(alive)!r}, 'w')\n    f.write('here')\n    f.flush()\n    time.sleep(1000)\n"
        f'print(\'{{"answer": "2", "usage": {json.dumps(USAGE)}}}\')'
    )
    run = planned(connection, tmp_path, key, strategy("stays", python(code)))
    crew.start(workers=2, concurrency=4)
    with alive.open() as pipe:
        assert pipe.read(4) == "here"
        [call] = connection.execute("SELECT worker FROM call WHERE status = 'started'").fetchall()
        os.kill(int(call["worker"].split(":")[1]), signal.SIGTERM)
        assert pipe.read() == ""  # the program is gone
    assert watch(connection, "test", alive=lambda: None).state == "finished"
    first, second = rows_of(connection, run)
    assert (first["status"], first["error"], first["total_tokens"]) == ("unknown", "cancelled", None)
    assert (second["purpose"], second["retry_reason"], second["total_tokens"]) == (
        "retry",
        "unknown_outcome",
        960,
    )
    check_store(connection, run.run)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("allow_commands = true", ""), "say allow_commands = true at the top of the file"),
        (
            ('base_url = "http://127.0.0.1:9/v1"', "simulate = true"),
            "the simulated one has /chat/completions alone",
        ),
        (("max_total_tokens = 5000", 'max_total_tokens = 5000\nhome = "nowhere"'), "is no folder"),
        (("max_total_tokens = 5000", 'max_total_tokens = 5000\nhome = "leaky"'), "holds the key itself"),
        (("max_total_tokens = 5000", ""), "parameter 'max_total_tokens' is missing"),
    ],
)
def test_experiments_that_are_refused(tmp_path: Path, key: str, change: tuple[str, str], says: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK | {"files": []}))
    (tmp_path / "leaky").mkdir()
    (tmp_path / "leaky" / "settings.json").write_text(os.environ[key])
    text = (HEAD.format(key=key) + strategy("only", ["agent"])).replace('"generic"', '"codex"')
    (tmp_path / "experiment.toml").write_text(text.replace(*change))
    with pytest.raises(ExperimentInvalid) as raised:
        load(tmp_path / "experiment.toml")
    assert says in str(raised.value)
    assert "strategies.1 ('only')" in str(raised.value)
    assert os.environ[key] not in str(raised.value)
