"""`paretoken run` again, changed, and against a gateway that nobody here wrote."""

import csv
import json
import shutil
import signal
from pathlib import Path

import pytest

from paretoken import servers
from paretoken.settings import HOME
from paretoken.simulator import launch
from tests.acceptance.conftest import TIMEOUT_S, CommandLine
from tests.experiments import GATEWAY, write_experiment
from tests.faults.processes import until
from tests.third_party import ask, llmock

EXAMPLE = Path(__file__).parents[2] / "examples" / "arena"

STRATEGIES = """
[[strategies]]
name = "baseline"
kind = "single"

[[strategies]]
name = "sc_k3"
kind = "self_consistency"
k = 3
"""


def test_a_run_is_not_repeated_and_a_changed_one_is_refused(paretoken: CommandLine) -> None:
    file = write_experiment(paretoken.folder, tasks=20, strategies=STRATEGIES)
    text = file.read_text()
    file.write_text(text[: text.index("[prices")] + text[text.index("[[strategies]]") :])
    first = paretoken("run", file, "--no-page", "--out", "first")
    assert first.returncode == 0, first.stderr
    # A missing price is no error: cost is unknown, which is said once.
    assert first.stderr.count("No price for sim-small") == 1
    assert {row["avg_cost_usd"] for row in rows_of(paretoken.folder / "first")} == {""}

    again = paretoken("run", file, "--no-page", "--out", "again")
    assert again.returncode == 0, again.stderr
    assert "continues" in again.stderr
    assert read(paretoken.folder, "again/ledger.jsonl") == read(paretoken.folder, "first/ledger.jsonl")
    # 20 x (1 + 3) requests in all, whichever of the two asked.
    assert read(paretoken.folder, "again/served.jsonl").count("\n") == 80

    file.write_text(file.read_text().replace("temperature = 0.0", "temperature = 0.5"))
    changed = paretoken("run", file, "--no-page", "--out", "changed")
    assert changed.returncode == 2
    *_, last = changed.stderr.splitlines()
    assert "'test' was planned from another experiment" in last
    assert "model.temperature: 0.0, now 0.5" in last


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text()


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "strategy_tokens.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(
    paretoken: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-test-1234567890"
    monkeypatch.setenv("TEST_GATEWAY_KEY", key)
    tasks = write_experiment(paretoken.folder, tasks=40).with_name("tasks.jsonl")
    with launch(tasks=tasks, api_key_env="TEST_GATEWAY_KEY", latency_ms=300) as gateway:
        file = write_experiment(
            paretoken.folder,
            tasks=40,
            gateway=GATEWAY.format(base_url=gateway.base_url),
            strategies=STRATEGIES,
            more="[limits]\nconcurrency = 4\n",
        )
        first = paretoken.start("run", file, "--no-page", "--out", "out", TEST_GATEWAY_KEY=key)
        assert first.stderr is not None
        # Answers have come in, and more are on their way.
        while ": 0 done" in (line := first.stderr.readline()) or "trials; calls" not in line:
            assert line, "it ended by itself"
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=TIMEOUT_S)
        assert first.returncode == 130, said
        assert "Traceback" not in said
        assert json.loads(paretoken("status", "test", "--json").stdout)["state"] == "paused"
        paretoken.must("run", file, "--no-page", "--out", "out", TEST_GATEWAY_KEY=key)
        served = sorted(row["response_id"] for row in gateway.record() if row["served"])
    rows = [json.loads(line) for line in read(paretoken.folder, "out/ledger.jsonl").splitlines()]
    # 40 x (1 + 3) calls, each paid for once.
    assert len(served) == 160
    assert sorted(row["response_id"] for row in rows) == served


def test_ctrl_c_once_more_ends_at_once_and_leaves_nothing_behind(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-test-1234567890"
    monkeypatch.setenv("TEST_GATEWAY_KEY", key)
    tasks = write_experiment(command_line.folder, tasks=8).with_name("tasks.jsonl")
    with launch(tasks=tasks, api_key_env="TEST_GATEWAY_KEY", faults=[{"kind": "timeout"}]) as gateway:
        file = write_experiment(
            command_line.folder,
            tasks=8,
            gateway=GATEWAY.format(base_url=gateway.base_url),
            strategies=STRATEGIES,
        )
        run = command_line.start("run", file, "--no-page", "--workers", "1", TEST_GATEWAY_KEY=key)
        assert run.stderr is not None
        until(lambda: gateway.stats()["in_flight"], "a call in flight")
        run.send_signal(signal.SIGINT)
        while "Stopping" not in (line := run.stderr.readline()):
            assert line, "it ended by itself"

        def ended() -> bool:
            """As somebody does who is impatient."""
            run.send_signal(signal.SIGINT)
            return run.poll() is not None

        until(ended, "the end of the run")
        _, said = run.communicate()
        assert run.returncode == 130, said
        assert "Ended at once: calls in flight count as unknown." in said
        until(lambda: gateway.stats()["in_flight"] == 0, "the end of the worker")
    home = Path(command_line.environment[HOME])
    state = servers.status(home)
    assert not (state.postgres.running or state.valkey.running)


def test_the_arena_on_a_third_partys_gateway(paretoken: CommandLine) -> None:
    with llmock(paretoken.folder / "llmock.log") as address:
        done = paretoken(
            "run",
            arena_at(address, paretoken.folder),
            "--no-page",
            "--out",
            "out",
            TAOTOKEN_API_KEY="sk-llmock-0123456789",
        )
        assert done.returncode == 0, done.stderr
        asked = ask(address, "requests")
    rows = [json.loads(line) for line in read(paretoken.folder, "out/ledger.jsonl").splitlines()]
    assert len(rows) == asked["count"] == 560
    assert {row["status"] for row in rows} == {"ok"}
    assert {request["path"] for request in asked["requests"]} == {"/v1/chat/completions"}
    assert not (paretoken.folder / "out" / "served.jsonl").exists()
    assert "sk-llmock" not in everything_written(paretoken.folder)


def arena_at(address: str, folder: Path) -> Path:
    """The example for a real gateway, its placeholders filled in."""
    folder = folder / "arena"
    shutil.copytree(EXAMPLE, folder)
    file = folder / "taotoken.toml"
    filled_in = {
        "https://taotoken.net/api": f"{address}/v1",
        "<model>": "gpt-4o-mini",
        '"<price, or delete this line>"': "0.075",
        '"<price>"': "0.15",
        "requests_per_minute = 60": "requests_per_minute = 60_000",
        "tokens_per_minute = 200_000": "tokens_per_minute = 600_000_000",
        "concurrency = 8": "concurrency = 64",
    }
    text = file.read_text()
    for old, new in filled_in.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


def everything_written(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
