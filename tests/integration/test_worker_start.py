"""A worker that cannot start says why once, and does not end as if it had worked."""

import signal
import subprocess
import sys

import pytest

# What no lease can be: the database refuses it after everything else has started.
START = """
import sys
from workers.engine import EngineSettings
from workers.process import run_worker

run_worker(EngineSettings(database_url=sys.argv[1], broker_url=sys.argv[2], concurrency=1, lease_s=float("inf")))
"""

BROKEN = """
from workers.pool import ShardPool

def fail(self):
    raise RuntimeError("no thread can be started")

ShardPool.on_start = fail
"""


def test_a_worker_whose_engine_cannot_start(database_url: str, broker_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, database_url, broker_url], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].endswith(": interval out of range"), done.stderr
    assert "Unrecoverable" not in done.stderr


# Celery ends with 1 after Ctrl-C.
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 1)])
def test_a_worker_that_waits_for_a_database_hears_that_it_should_end(
    database_url: str, broker_url: str, number: int, code: int
) -> None:
    read_only = f"{database_url}?options=-c%20default_transaction_read_only%3Don"
    waiting = subprocess.Popen(
        [sys.executable, "-c", START.replace('float("inf")', "60"), read_only, broker_url],
        stderr=subprocess.PIPE,
        text=True,
    )
    with waiting:
        assert waiting.stderr is not None
        while "Postgres is away" not in (line := waiting.stderr.readline()):
            assert line, "it ended by itself"
        waiting.send_signal(number)
        assert waiting.wait(timeout=60) == code


def test_a_worker_whose_celery_cannot_start(database_url: str, broker_url: str) -> None:
    started = BROKEN + START.replace('float("inf")', "60")
    done = subprocess.run(
        [sys.executable, "-c", started, database_url, broker_url], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "no thread can be started" in done.stderr
