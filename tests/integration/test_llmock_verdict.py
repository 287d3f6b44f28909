"""A third party's own verdict on how the client behaves under faults: nothing to find."""

import json
from pathlib import Path

from db.connection import Connection
from paretoken.live import watch
from paretoken.processes import Crew
from scheduler.experiment import load
from scheduler.plan import plan
from tests.experiments import GATEWAY, write_experiment
from tests.runs import KEY
from tests.third_party import ask, llmock
from workers.keys import read_key

TASKS = 12
SCENARIOS = {
    "fail": (
        False,
        [
            {"type": "fail", "status": 503, "times": 3},
            {"type": "fail", "status": 500, "times": 2},
            {"type": "fail", "status": 529, "times": 1},
            {"type": "fail", "status": 429, "retry_after": 2, "times": 2},
            {"type": "fail", "status": 503, "retry_after": 1.5, "times": 1},
        ],
    ),
    "delay": (False, [{"type": "delay", "seconds": 1.0, "times": 4}]),
    "stream_fault": (
        True,
        [
            {"type": "stream_fault", "kind": kind, "after_chunks": 1, "times": 2}
            for kind in ("disconnect", "truncate", "malformed")
        ],
    ),
}


def run(
    connection: Connection, folder: Path, address: str, name: str, crew: Crew, *, stream: bool
) -> dict[str, int]:
    gateway = GATEWAY.format(base_url=f"{address}/v1") + f"stream = {json.dumps(stream)}\n"
    path = write_experiment(folder, tasks=TASKS, gateway=gateway)
    path.write_text(path.read_text().replace("sim-small", "gpt-4o-mini"))
    loaded = load(path, run_id=name)
    plan(connection, loaded, key_fingerprint=read_key(KEY).fingerprint, base_url=loaded.base_url)
    return dict(watch(connection, name, alive=crew.require_alive).trials)


def test_faults_of_every_kind(connection: Connection, tmp_path: Path, key: str, crew: Crew) -> None:
    crew.start(workers=1, concurrency=4)
    for name, (stream, behaviours) in SCENARIOS.items():
        # With a pause between chunks it can see that a client has stopped reading.
        with llmock(tmp_path / "llmock.log", "--stream-chunk-delay-ms", "60") as address:
            ask(address, "scenario", {"behaviors": behaviours})
            assert run(connection, tmp_path, address, name, crew, stream=stream) == {"ok": TASKS}
            verdict = ask(address, "verdict")
        assert verdict["attempts"] == TASKS + sum(b["times"] for b in behaviours if b["type"] != "delay"), (
            name
        )
        assert (verdict["passed"], verdict["findings"]) == (True, []), name


def test_refusals_at_random(connection: Connection, tmp_path: Path, key: str, crew: Crew) -> None:
    crew.start(workers=1, concurrency=4)
    with llmock(tmp_path / "llmock.log", "--error-rate", "429=0.1", "--error-rate", "503=0.3") as address:
        assert run(connection, tmp_path, address, "limited", crew, stream=False) == {"ok": TASKS}
        assert ask(address, "verdict")["findings"] == []
