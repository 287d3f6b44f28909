"""Agents on real servers: tools between the calls, files that outlive a worker, limits, the two protocols."""

import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from db.connection import Connection, connect
from db.ledger import export_lines
from paretoken.live import watch
from paretoken.processes import Crew
from scheduler.experiment import load
from scheduler.plan import Plan, plan
from tests.integration.chat_server import ChatServer, chat_server, tool_call
from tests.third_party import ask, llmock
from workers.keys import read_key
from workers.tools import TOOLS

CSV = "species,mass\n" + "".join(f"Adelie,{mass}\n" for mass in range(1, 13)) + "Gentoo,NA\n"
REFERENCE = "the-reference-that-nobody-may-see"
TASK = {
    "id": "count",
    "goal": "How many birds of birds.csv have a mass above 4? Write it to result.json too.",
    "files": ["birds.csv"],
    "reference": REFERENCE,
    "checks": [
        {"kind": "number", "value": 8},
        {"kind": "file_json", "file": "result.json", "fields": {"count": 8}},
        {"kind": "not_contains", "text": "secret-of-the-checks"},
    ],
}


def planned(
    connection: Connection, folder: Path, server: ChatServer, key: str, *, agent: str = "", top: str = ""
) -> Plan:
    (folder / "birds.csv").write_text(CSV)
    (folder / "tasks.jsonl").write_text(json.dumps(TASK))
    (folder / "experiment.toml").write_text(
        f'tasks = "tasks.jsonl"\n{top}\n[gateway]\nbase_url = "{server.base_url}"\napi_key_env = "{key}"\n'
        '[model]\nname = "m"\ntemperature = 0.0\n[[strategies]]\nname = "agent"\nkind = "agent"\n' + agent
    )
    loaded = load(folder / "experiment.toml", run_id="test")
    return plan(connection, loaded, key_fingerprint=read_key(key).fingerprint, base_url=loaded.base_url)


def trial(connection: Connection) -> dict[str, Any]:
    [row] = connection.execute("SELECT * FROM trial").fetchall()
    return row


def ended(connection: Connection, crew: Crew) -> dict[str, Any]:
    crew.start(workers=1, concurrency=4)
    assert watch(connection, "test", alive=lambda: None).state == "finished"
    return trial(connection)


def given(request: Mapping[str, Any]) -> list[str]:
    """What the tools gave so far."""
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


def solve(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Three tool calls, each made of what the one before gave; the answer is the number that the query counted."""
    match given(request):
        case []:
            return tool_call("list_files")
        case [listed]:
            [file] = re.findall(r"(\S+\.csv)", listed)
            table = file.removesuffix(".csv")
            return tool_call("query_csv", sql=f"SELECT COUNT(*) AS n FROM {table} WHERE mass > 4")
        case [_, counted]:
            count = int(counted.splitlines()[1])
            return tool_call("write_result", name="result.json", content=json.dumps({"count": count}))
        case [_, counted, written]:
            assert written.startswith("result.json is written")
            return {"content": f"There are {counted.splitlines()[1]}."}
    raise AssertionError(request)


def solve_in_json(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same for the protocol `json`."""
    assert "tools" not in request
    told = [message["content"] for message in request["messages"] if message["role"] == "user"][1:]
    inside = [text.split("```\n")[1].removesuffix("\n```") for text in told]
    asked = {"messages": [{"role": "tool", "content": text} for text in inside]}
    message = solve(asked)
    said: dict[str, Any] = {"plan": "Go on.", "actions": [], "result": message.get("content")}
    for call in message.get("tool_calls", ()):
        function = call["function"]
        said["actions"].append({"tool": function["name"], "arguments": json.loads(function["arguments"])})
    return {"content": json.dumps(said)}


@pytest.mark.parametrize(("protocol", "reply"), [("tools", solve), ("json", solve_in_json)])
def test_a_task_is_solved_with_three_tool_calls(
    connection: Connection,
    tmp_path: Path,
    key: str,
    crew: Crew,
    protocol: str,
    reply: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> None:
    with chat_server(reply) as server:
        run = planned(connection, tmp_path, server, key, agent=f'protocol = "{protocol}"\n')
        row = ended(connection, crew)
    assert (row["state"], row["answer"], row["confirmed_success"]) == ("ok", "There are 8.", True)
    assert row["detail"] == {"steps": 4}
    files = connection.execute("SELECT name, content FROM trial_file").fetchall()
    assert files == [{"name": "result.json", "content": b'{"count": 8}'}]
    rows = [json.loads(line) for line in export_lines(connection, run=run.run)]
    assert [(row["round"], row["status"], row["used"], row["response_id"]) for row in rows] == [
        (number, "ok", True, f"r{number}") for number in (1, 2, 3, 4)
    ]
    assert {row["total_tokens"] for row in rows} == {15}
    # An agent is shown neither the reference nor the checks.
    everything = json.dumps(server.requests)
    assert REFERENCE not in everything
    assert "secret-of-the-checks" not in everything


def test_an_agent_that_never_answers_ends_with_its_steps_and_is_not_run_again(
    connection: Connection, tmp_path: Path, key: str, crew: Crew
) -> None:
    with chat_server(lambda _: tool_call("list_files")) as server:
        planned(connection, tmp_path, server, key, agent="max_steps = 3\n", top="reruns_on_failed_check = 1")
        row = ended(connection, crew)
    assert (row["state"], row["reason"]) == ("failed", "steps: no answer after all 3 steps")
    assert (row["confirmed_success"], row["try"], row["answer"]) == (False, 1, None)
    assert len(server.requests) == 3


def test_output_that_is_not_the_asked_for_json_is_asked_for_once_more(
    connection: Connection, tmp_path: Path, key: str, crew: Crew
) -> None:
    with chat_server(lambda _: {"content": '{"plan": "I have one"}'}) as server:
        run = planned(connection, tmp_path, server, key, agent='protocol = "json"\n')
        row = ended(connection, crew)
    assert row["state"] == "review"
    assert row["reason"].startswith("invalid_output in round 1, sample 1: the output is not the JSON object")
    rows = [json.loads(line) for line in export_lines(connection, run=run.run)]
    assert [(row["purpose"], row["retry_reason"], row["error"], row["total_tokens"]) for row in rows] == [
        ("first", None, "invalid_output", 15),
        ("retry", "invalid_output", "invalid_output", 15),
    ]


def test_a_wrong_answer_is_rerun_once_with_a_clean_folder_and_then_reviewed(
    connection: Connection, tmp_path: Path, key: str, crew: Crew
) -> None:
    listed: list[str] = []

    def reply(request: Mapping[str, Any]) -> Mapping[str, Any]:
        match given(request):
            case []:
                return tool_call("list_files")
            case [files]:
                listed.append(files)
                return tool_call("write_result", name="result.json", content='{"count": 7}')
        return {"content": "7"}

    with chat_server(reply) as server:
        run = planned(connection, tmp_path, server, key, top="reruns_on_failed_check = 1")
        row = ended(connection, crew)
    assert (row["state"], row["try"], row["repetition"]) == ("review", 2, "failed_check")
    assert (row["confirmed_success"], row["answer"]) == (False, "7")
    assert row["reason"] == "failed_check: number: expected 8, seen 7 as the last number"
    assert [(check["try"], check["kind"], check["passed"]) for check in row["checks"]] == [
        (number, kind, passed)
        for number in (1, 2)
        for kind, passed in (("number", False), ("file_json", False), ("not_contains", True))
    ]
    # The second try does not see what the first one has written.
    assert listed == [f"birds.csv ({len(CSV)} bytes)"] * 2
    rows = [json.loads(line) for line in export_lines(connection, run=run.run)]
    assert [(row["try"], row["purpose"], row["retry_reason"]) for row in rows] == [
        *[(1, "first", None)] * 3,
        *[(2, "rerun", "failed_check")] * 3,
    ]


def test_another_worker_goes_on_with_the_files_of_one_that_was_killed(
    connection: Connection, tmp_path: Path, key: str, crew: Crew
) -> None:
    killed: list[int] = []

    def reply(request: Mapping[str, Any]) -> Mapping[str, Any]:
        match given(request):
            case []:
                return tool_call("write_result", name="result.json", content='{"count": 8}')
            case [_]:
                if not killed:
                    killed.append(asking())
                    os.kill(killed[0], signal.SIGKILL)
                return tool_call("read_file", name="result.json")
            case [_, content]:
                return {"content": f"8, as in {content}"}
        raise AssertionError(request)

    def asking() -> int:
        """The process of the worker whose call is under way."""
        with connect(crew.services.database_url) as own:
            [call] = own.execute("SELECT worker FROM call WHERE status = 'started'").fetchall()
        return int(call["worker"].split(":")[1])

    with chat_server(reply) as server:
        planned(connection, tmp_path, server, key)
        crew.start(workers=2, concurrency=4)
        assert watch(connection, "test", alive=lambda: None).state == "finished"
        row = trial(connection)
    assert (row["state"], row["confirmed_success"]) == ("ok", True)
    assert len(server.requests) == 4  # the second one twice
    assert row["answer"].startswith('8, as in Lines 1 to 1 of 1:\n{"count": 8}')


def test_an_agent_works_with_a_gateway_that_nobody_here_wrote(
    connection: Connection, tmp_path: Path, key: str, crew: Crew
) -> None:
    with llmock(tmp_path / "llmock.log", "--tool-mode", "auto") as address:
        run = planned(connection, tmp_path, ChatServer(base_url=f"{address}/v1"), key)
        row = ended(connection, crew)
        asked = ask(address, "requests")
    # It calls a tool that is offered, and answers when it has a result.
    assert (row["state"], row["detail"]) == ("ok", {"steps": 2})
    assert asked["count"] == 2
    [call] = connection.execute("SELECT tool_calls FROM call WHERE tool_calls IS NOT NULL").fetchall()
    assert call["tool_calls"][0]["function"]["name"] in TOOLS
    rows = [json.loads(line) for line in export_lines(connection, run=run.run)]
    assert [(row["round"], row["status"], row["used"]) for row in rows] == [(1, "ok", True), (2, "ok", True)]
    assert all(row["total_tokens"] > 0 for row in rows)
