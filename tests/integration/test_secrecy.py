"""What every kind of strategy sends on a real run: never the reference, never the checks, in no round."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from db.connection import Connection
from paretoken.live import watch
from paretoken.processes import Crew
from scheduler.experiment import load
from scheduler.plan import plan
from tests.integration.chat_server import chat_server, tool_call
from workers.keys import read_key
from workers.strategies import KINDS

# An external program gets what its `round 1` prompt holds, as any other; it makes no calls of ours to look into.
CALLING = [kind for kind in KINDS if kind != "command"]
SECRETS = ("reference-0c1d", "checked-text-77aa", "checked-file-19bf", "checked-pattern-55e0")
TASK = {
    "id": "t",
    "goal": "What is in notes.txt?",
    "files": ["notes.txt"],
    "reference": SECRETS[0],
    "checks": [
        {"kind": "contains", "text": SECRETS[1]},
        {"kind": "file_exists", "file": SECRETS[2]},
        {"kind": "regex", "pattern": SECRETS[3]},
    ],
}


def reply(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ways through every round of every kind; debaters never agree, critics are never content."""
    if request.get("tools") and request["messages"][-1]["role"] != "tool":
        return tool_call("list_files")
    return {"content": f"Verdict: revise\nScore: 5\nAnswer: {len(json.dumps(request))}.{id(request)}"}


def test_no_call_of_any_kind_shows_reference_or_checks(
    connection: Connection, tmp_path: Path, key: str, crew: Crew
) -> None:
    (tmp_path / "notes.txt").write_text("nothing much\n")
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK))
    strategies = "".join(
        f'[[strategies]]\nname = "{kind}"\nkind = "{kind}"\n'
        + ("k = 2\n" if kind == "self_consistency" else "")
        for kind in CALLING
    )
    with chat_server(reply) as server:
        (tmp_path / "experiment.toml").write_text(
            'tasks = "tasks.jsonl"\nreruns_on_failed_check = 1\n'
            f'[gateway]\nbase_url = "{server.base_url}"\napi_key_env = "{key}"\n[model]\nname = "m"\n{strategies}'
        )
        loaded = load(tmp_path / "experiment.toml", run_id="test")
        plan(connection, loaded, key_fingerprint=read_key(key).fingerprint, base_url=loaded.base_url)
        crew.start(workers=1, concurrency=8)
        assert watch(connection, "test", alive=lambda: None).state == "finished"
    ended = connection.execute("SELECT state, try FROM trial").fetchall()
    # All fail their checks, are run once more, and wait for a person then.
    assert ended == [{"state": "review", "try": 2}] * len(CALLING)
    sent = json.dumps(server.requests)
    assert not [secret for secret in SECRETS if secret in sent]
    # single, cot 1; sc 2; debate 4 + 1; rerank, best of n 6; refine 5; agent 2: each of it twice.
    assert len(server.requests) == 2 * (1 + 1 + 2 + 5 + 6 + 6 + 5 + 2)
