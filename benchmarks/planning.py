"""Planning a large run, dispatching from it, and what stays in memory and in the broker meanwhile.

    python -m benchmarks.planning --tasks 10000 --strategies 10 --samples 10
    python -m benchmarks.planning --through 200000      # and so many jobs through a crew: is memory flat?

The experiment is read and planned in a process of its own, as `paretoken run` does it, whose peak is measured.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import redis

from benchmarks import usage
from benchmarks.results import Row, Tables, main
from benchmarks.stage import KEY, Stage, stage
from db import connection as database
from db import dispatch
from db.connection import Connection
from db.runs import pause_run
from paretoken.processes import Crew
from paretoken.services import own_services
from scheduler.dispatcher import MOST_QUEUED
from scheduler.experiment import load
from scheduler.plan import Plan, plan
from workers.app import QUEUE
from workers.keys import read_key

MOST_PLAN_S, MOST_MB, MOST_DISPATCH_MS = 60, 300, 50
_AT_ONCE = 500
_SCHEDULER_S = 3.0
_FILL_S = 60.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--strategies", type=int, default=10)
    parser.add_argument("--samples", type=int, default=10, help="jobs per trial")
    parser.add_argument("--through", type=int, default=0, help="jobs that a crew works off; 0: none")
    parser.add_argument("--workers", type=int, default=2, help="worker processes of that crew")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)


def measure(options: argparse.Namespace, crew: type[Crew] = Crew) -> Tables:
    jobs = options.tasks * options.strategies * options.samples
    with stage(latency_ms=20, crew=crew) as place:
        planned = _planned(place, options)
        assert planned["jobs"] == jobs
        run = place.connection.execute("SELECT id FROM run WHERE run_id = 'large'").fetchone()
        assert run is not None
        place.connection.execute("UPDATE run_lane SET proven_at = now()")
        dispatched_ms = _dispatch_ms(place.connection)
        peak_mb, messages, queued = _scheduler(place)
        pause_run(place.connection, run=run["id"], reason="The benchmark has seen enough.")
        tables: dict[str, list[Row]] = {
            f"{jobs:,} jobs: {options.tasks:,} tasks × {options.strategies} strategies × {options.samples} samples": [
                _row("seconds to read and check the files", planned["load_s"]),
                _row("seconds to plan", planned["plan_s"], MOST_PLAN_S),
                _row("peak MB of the process that plans", planned["peak_mb"], MOST_MB),
                _row(f"ms to dispatch {_AT_ONCE} jobs, median", dispatched_ms, MOST_DISPATCH_MS),
                _row("peak MB of the scheduler", peak_mb, MOST_MB),
                _row("jobs queued at once", queued, MOST_QUEUED + 1),
                _row("messages in the broker", messages, MOST_QUEUED + 1),
            ]
        }
        if options.through:
            tables[f"Memory while {options.through:,} jobs go through, MB"] = _through(place, options)
    return tables


def _row(what: str, value: float, below: float | None = None) -> Row:
    return {
        "what": what,
        "value": round(value, 1),
        "wanted": "" if below is None else f"below {below:,}",
        "met": None if below is None else value < below,
    }


def _planned(place: Stage, options: argparse.Namespace) -> Row:
    path = place.experiment(
        "large", tasks=options.tasks, strategies=options.strategies, samples=options.samples
    )
    command = [sys.executable, "-m", "benchmarks.planning", f"--child={path}"]
    done = usage.run_command(command, place.environment)
    assert done.code == 0, done.output
    found: Row = json.loads(done.output.splitlines()[-1])
    return found


def child(path: Path) -> None:
    """Read and plan as `paretoken run` does."""
    with database.connect(own_services().database_url) as connection:
        began = time.perf_counter()
        loaded = load(path)
        read = time.perf_counter()
        made: Plan = plan(
            connection, loaded, key_fingerprint=read_key(KEY).fingerprint, base_url=loaded.base_url
        )
        ended = time.perf_counter()
    peak = usage.peak_mb(_own_pid())
    print(json.dumps({"jobs": made.jobs, "load_s": read - began, "plan_s": ended - read, "peak_mb": peak}))


def _own_pid() -> int:
    return int(Path("/proc/self").readlink().name)


def _dispatch_ms(connection: Connection) -> float:
    """Median time of a dispatch; what was queued goes back each time."""
    took = []
    [lane] = dispatch.open_lanes(connection)
    for _ in range(9):
        with connection.transaction(force_rollback=True):
            began = time.perf_counter()
            found = dispatch.dispatch(connection, lane=lane, most=_AT_ONCE)
            took.append(1000 * (time.perf_counter() - began))
            assert found.jobs
    return statistics.median(took)


def _scheduler(place: Stage) -> tuple[float, int, int]:
    """Peak MB of a scheduler that has filled the queue; messages and queued jobs then."""
    broker = redis.Redis.from_url(place.services.broker_url)
    with place.working(workers=0, concurrency=1) as crew:
        pid = crew.children[0].pid
        end = time.monotonic() + _FILL_S
        while time.monotonic() < end and not (messages := int(broker.llen(QUEUE))):
            time.sleep(0.05)
        # Whatever it does over and over again it has done by then.
        time.sleep(_SCHEDULER_S)
        messages, peak = int(broker.llen(QUEUE)), usage.peak_mb(pid)
    row = place.connection.execute("SELECT count(*) AS jobs FROM job WHERE state = 'queued'").fetchone()
    assert row is not None
    broker.close()
    return peak, messages, row["jobs"]


def _through(place: Stage, options: argparse.Namespace) -> list[Row]:
    """Memory of each process at every tenth of the jobs."""
    rows: list[Row] = []
    with place.working(workers=options.workers, concurrency=100) as crew:
        planned = place.plan("through", tasks=-(-options.through // 10), samples=10)
        for tenth in range(1, 11):
            place.await_calls(planned.run, planned.jobs * tenth // 10, crew)
            memory = {
                name.replace("-", " "): round(usage.rss_mb(process.pid))
                for name, process in zip(crew.names, crew.children, strict=True)
            }
            rows.append({"jobs_done": planned.jobs * tenth // 10, **memory})
        place.await_end(planned.run, crew)
    return rows


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("--child="):
        child(Path(sys.argv[1].removeprefix("--child=")))
    else:
        main(__doc__, add_options, measure)
