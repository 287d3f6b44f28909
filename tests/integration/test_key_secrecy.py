"""A whole run with a marked key, on a gateway that says the key back: nothing that is left of it holds the key."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from db.connection import Connection
from paretoken.processes import Crew
from paretoken.settings import BROKER_URL, DATABASE_URL, HOME
from paretoken.simulator import launch
from tests import warm
from tests.experiments import GATEWAY, task, write_experiment
from tests.integration.scraping import scrape
from tests.runs import KEY
from workers.app import QUEUE
from workers.errors import KeyUnusable
from workers.gateway.client import Gateway
from workers.keys import read_key

SECRET = "sk-marked-5f0c2b7e9a4d81c36b3e"
# `doctor` may show the last four characters; more than that nobody.
MARK = SECRET[3:-4]
TRACES = (MARK.encode(), MARK.encode().hex().encode())
SAID_BACK = {"error": {"message": f"Something is wrong about {SECRET}."}}
FAULTS = [
    {"kind": "server_error", "count": 1, "body": SAID_BACK},
    {"kind": "html", "count": 1, "body": f"<html>{SECRET}</html>"},
    {"kind": "context_length_exceeded", "contains": "Task 3:", "body": SAID_BACK},
]
# It is given the key, since it makes calls of its own, and gives it away wherever it can.
TELLER = """
import json, os, pathlib, sys
key = os.environ["OPENAI_API_KEY"]
pathlib.Path("told.txt").write_text(key)
print(key, file=sys.stderr)
print(key)
print(json.dumps({"answer": f"It is {key}.", "usage": {"input_tokens": 5, "output_tokens": 5, "note": key}}))
"""
END = "end-of-watching"
# `{}` is the test's folder.
COMMANDS = [
    "export test --out {}/ledger.csv",
    "audit test",
    "clients write {}/experiment.toml --out {}/clients",
    "doctor {}/experiment.toml",
]


@contextmanager
def broker_watched(url: str) -> Iterator[list[str]]:
    """Every command that the broker is given meanwhile: queue messages, limiter scripts, keys, values."""
    seen: list[str] = []
    with redis.Redis.from_url(url, socket_timeout=None) as broker, broker.monitor() as monitor:

        def watch() -> None:
            for command in monitor.listen():
                seen.append(command["command"])
                if END in command["command"]:
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield seen
        finally:
            broker.echo(END)
            watcher.join()


@contextmanager
def processes_watched() -> Iterator[tuple[set[bytes], set[bytes]]]:
    """The command lines of all processes, as `ps` shows them; and what the sandboxes have in their environment."""
    lines: set[bytes] = set()
    sandboxes: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    line = (process / "cmdline").read_bytes()
                    lines.add(line)
                    if b"workers.sandbox" in line:
                        sandboxes.add(line + (process / "environ").read_bytes())
                except OSError:  # it has ended, or is another user's
                    continue

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield lines, sandboxes
    finally:
        over.set()
        watcher.join()


def write_run(folder: Path, base_url: str) -> Path:
    """Six tasks, the third of which the gateway refuses; checks that run in a sandbox; a program that tells the key."""
    (folder / "tell.py").write_text(TELLER)
    path = write_experiment(
        folder,
        tasks=6,
        gateway=GATEWAY.format(base_url=base_url),
        top="allow_commands = true",
        more="[retries]\nbackoff_s = 0.01\n",
        strategies='[[strategies]]\nname = "refined"\nkind = "self_refine"\n'
        '[[strategies]]\nname = "teller"\nkind = "command"\nclient = "generic"\nmax_total_tokens = 1000\n'
        f"command = {json.dumps([sys.executable, str(folder / 'tell.py')])}\n",
    )
    checked = [task(number) for number in range(1, 7)]
    for each in checked:
        each["checks"].append({"kind": "regex", "pattern": "[0-9]+"})
    (folder / "tasks.jsonl").write_text("".join(json.dumps(each) + "\n" for each in checked))
    return path


def traces_in_files(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(trace in path.read_bytes() for trace in TRACES)
    ]


def traces_in_tables(connection: Connection) -> dict[str, int]:
    """Table or view -> rows that hold the key as text, or in bytes as PostgreSQL writes them."""
    names = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'm')"
    ).fetchall()
    patterns = [f"%{trace.decode()}%" for trace in TRACES]
    found = {}
    for name in (row["relname"] for row in names):
        row = connection.execute(
            f'SELECT count(*) AS rows FROM "{name}" AS it WHERE it::text LIKE ANY(%s)', [patterns]
        ).fetchone()
        assert row is not None
        if row["rows"]:
            found[name] = row["rows"]
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here to see processes in")
def test_no_file_row_message_output_or_process_list_holds_the_key(
    connection: Connection,
    crew: Crew,
    broker_url: str,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    (home / "tmp").mkdir(parents=True)
    crew.logs.mkdir()
    for name, value in {
        KEY: SECRET,
        HOME: str(home),
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        DATABASE_URL: database_url,
        BROKER_URL: broker_url,
    }.items():
        monkeypatch.setenv(name, value)
    tasks = tmp_path / "tasks.jsonl"
    write_run(tmp_path, "http://127.0.0.1:1/v1")
    with (
        launch(tasks=tasks, api_key_env=KEY, record=tmp_path / "served.jsonl") as gateway,
        broker_watched(broker_url) as commands,
        processes_watched() as (lines, sandboxes),
    ):
        write_run(tmp_path, gateway.base_url)
        gateway.set_faults(FAULTS)
        crew._spawn("scheduler", ["scheduler", "--lease-s=3", "--metrics-port=0"])
        crew._spawn("worker-9", ["worker", "--lease-s=3", "--concurrency=2", "--metrics-port=0"])
        told = scrape(crew, "scheduler") + scrape(crew, "worker-9")
        # As a user runs it, so that the process list is the real one.
        run = [sys.executable, "-m", "paretoken", "run", "experiment.toml", "--workers=0"]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
        told += done.stdout + done.stderr + scrape(crew, "scheduler") + scrape(crew, "worker-9")
        gateway.set_faults([{"kind": "invalid_api_key", "body": SAID_BACK}])
        codes = {}
        for number, command in enumerate(COMMANDS):
            arguments = command.replace("{}", str(tmp_path)).split()
            with (crew.logs / f"command-{number}.log").open("wb") as log:
                codes[command] = warm.start(arguments, dict(os.environ), log).wait()
        crew.stop()
    # It was the run that it should be: calls that failed, were refused and answered; a key that was said back.
    assert done.returncode == 1, told
    assert "1 failed" in done.stderr
    said = connection.execute("SELECT message FROM call WHERE message LIKE '%[key]%'").fetchall()
    assert len(said) >= 2
    answers = connection.execute("SELECT answer FROM trial WHERE answer LIKE 'It is %'").fetchall()
    assert answers == [{"answer": "It is [key]."}] * 6
    # In the end the gateway refuses the key, and a trial has no answer; all else is well.
    assert list(codes.values()) == [0, 0, 0, 1]
    assert {path.name for path in tmp_path.rglob("ledger.*")} == {"ledger.jsonl", "ledger.csv"}
    assert any(QUEUE in command for command in commands)
    assert any(b"experiment.toml" in line for line in lines)
    assert sandboxes
    # And nothing of it holds the key.
    assert MARK not in told
    assert traces_in_files(tmp_path) == []
    assert traces_in_tables(connection) == {}
    assert [command for command in commands if MARK in command] == []
    assert [line for line in lines | sandboxes if TRACES[0] in line] == []


@pytest.mark.parametrize(
    "given", [f"Bearer {SECRET}", f"{SECRET}\n", f"'{SECRET}'", f"{SECRET} {SECRET}", f"{SECRET}\u00e9"]
)
def test_no_complaint_about_a_key_holds_it(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, given)
    with pytest.raises(KeyUnusable) as caught:
        read_key(KEY)
    assert MARK not in str(caught.value) + repr(caught.value)


async def test_no_object_shows_the_key_that_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
    gateway = Gateway(base_url="http://127.0.0.1:1/v1", api_key=SECRET, max_connections=1, timeout_s=1)
    try:
        assert MARK not in repr(read_key(KEY)) + str(read_key(KEY)) + repr(gateway) + str(gateway)
    finally:
        await gateway.close()
