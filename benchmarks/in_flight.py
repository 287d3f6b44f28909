"""What one worker machine needs while many slow calls are in flight: memory, connections to Postgres.

    python -m benchmarks.in_flight --calls 1000 --latency-s 10

The gateway is quick at first, until the limiter has learnt that so many calls at once are welcome. Memory is the
processes' PSS, in which pages that several share count once.
"""

import argparse
import time

from benchmarks import usage
from benchmarks.results import Row, Tables, main
from benchmarks.stage import Stage, stage
from db.runs import pause_run
from paretoken.processes import SCHEDULER, Crew

MOST_MB, MOST_CONNECTIONS = 1536, 60
# A few of the slots are always between two calls.
_SPARE = 1.02
_LOOK_S = 0.05
# The limiter doubles what it allows with every round of answers, from 8 on.
_DOUBLINGS, _AT_MOST_S = 10, 60
_CONNECTIONS = """SELECT count(*) AS found FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'paretoken %'"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=100, help="in flight, of all workers together")
    parser.add_argument("--latency-s", type=float, default=2.0, help="of a call")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")


def measure(options: argparse.Namespace, crew: type[Crew] = Crew) -> Tables:
    latency_ms = 1000 * options.latency_s
    slots = round(options.calls / options.workers * _SPARE) + 1
    with (
        stage(latency_ms=latency_ms / 2, crew=crew) as place,
        place.working(workers=options.workers, concurrency=slots) as working,
    ):
        planned = place.plan("in-flight", tasks=2 * options.calls, samples=10)
        _await_in_flight(place, working, options)
        place.gateway.set_latency(latency_ms)
        in_flight = _await_in_flight(place, working, options)
        rows = _rows(place, working)
        connections = place.connection.execute(_CONNECTIONS).fetchone()
        pause_run(place.connection, run=planned.run, reason="The benchmark has seen enough.")
        place.gateway.set_latency(0)
    assert connections is not None
    total_mb = rows[-1]["pss_mb"]
    limits = [
        {"what": "calls in flight at once", "value": in_flight, "wanted": f"{options.calls:,}", "met": True},
        _limit("MB of workers and scheduler", total_mb, MOST_MB),
        _limit("connections to Postgres", connections["found"], MOST_CONNECTIONS),
    ]
    title = (
        f"{options.calls:,} calls of {options.latency_s:g} s in flight, {options.workers} worker processes"
    )
    return {title: rows, "Limits": limits}


def _await_in_flight(place: Stage, working: Crew, options: argparse.Namespace) -> int:
    end = time.monotonic() + _DOUBLINGS * options.latency_s + _AT_MOST_S
    while (seen := int(place.gateway.stats()["in_flight"])) < options.calls:
        working.require_alive()
        assert time.monotonic() < end, f"only {seen} calls are in flight: this machine is too slow for more"
        time.sleep(_LOOK_S)
    return seen


def _rows(place: Stage, working: Crew) -> list[Row]:
    children = dict(zip(working.names, (child.pid for child in working.children), strict=True))
    workers = [pid for name, pid in children.items() if name != SCHEDULER]
    groups = {
        "worker processes": workers,
        "scheduler": [children[SCHEDULER]],
        "Postgres and Valkey": sorted(place.server_pids()),
        "workers and scheduler": list(children.values()),
    }
    return [
        {"processes": name, "number": len(pids), "pss_mb": round(usage.pss_mb(pids))}
        for name, pids in groups.items()
    ]


def _limit(what: str, value: float, most: float) -> Row:
    return {"what": what, "value": value, "wanted": f"below {most:,}", "met": value < most}


if __name__ == "__main__":
    main(__doc__, add_options, measure)
