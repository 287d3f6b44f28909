"""How the pace changes with worker processes and with the size of the run.

    python -m benchmarks.growth --calls 2000 --workers 1 2 4 --planned 1000 10000 100000 1000000

With workers: the calls of a whole run. With size: the same number of calls out of runs of 1,000 to 1,000,000 planned
jobs, one after another in the same database, so that each finds the rows of all before it.
"""

import argparse
import time

from benchmarks.results import Row, Tables, main
from benchmarks.stage import Stage, crew_cpu_s, stage
from db.runs import pause_run
from paretoken.processes import Crew

_SAMPLES = 10
# Of the calls: what passes before the pace is measured, so that it is a steady one.
_LEAD = 0.2


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=500, help="measured each time")
    parser.add_argument(
        "--concurrency", type=int, default=200, help="calls in flight, of all processes together"
    )
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="worker processes, one table")
    parser.add_argument(
        "--planned", type=int, nargs="+", default=[1000, 10_000], help="jobs, the other table"
    )
    parser.add_argument("--latency-ms", type=float, default=200)


def measure(options: argparse.Namespace, crew: type[Crew] = Crew) -> Tables:
    with stage(latency_ms=options.latency_ms, crew=crew) as place:
        by_workers = [_with_workers(place, workers, options) for workers in options.workers]
        by_size = _with_sizes(place, options)
    each = f"{options.calls:,} calls at {options.latency_ms:g} ms, {options.concurrency} in flight"
    return {f"Worker processes: {each}": by_workers, f"Size of the run: {each}": by_size}


def _with_workers(place: Stage, workers: int, options: argparse.Namespace) -> Row:
    with place.working(workers=workers, concurrency=-(-options.concurrency // workers)) as crew:
        warm = place.plan(f"warm-{workers}", tasks=100)
        place.await_end(warm.run, crew)
        gateway_s, used_s = place.gateway.stats()["cpu_s"], crew_cpu_s(crew)
        planned = place.plan(f"workers-{workers}", tasks=options.calls)
        place.await_end(planned.run, crew)
        gateway_s = place.gateway.stats()["cpu_s"] - gateway_s
        used_s = crew_cpu_s(crew) - used_s
    return {
        "worker_processes": workers,
        "calls_per_s": place.calls_per_s(planned.run),
        "cpu_ms_per_call": 1000 * used_s / planned.jobs,
        # What one core could serve, were it the gateway's alone.
        "gateway_could_per_s": round(planned.jobs / max(gateway_s, 0.01)),
    }


def _with_sizes(place: Stage, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    workers = 2
    lead = round(_LEAD * options.calls)
    with place.working(workers=workers, concurrency=-(-options.concurrency // workers)) as crew:
        for jobs in options.planned:
            began = time.perf_counter()
            tasks = max(1, jobs // (_SAMPLES * _strategies(jobs)))
            planned = place.plan(
                f"planned-{jobs}", tasks=tasks, strategies=_strategies(jobs), samples=_SAMPLES
            )
            plan_s = time.perf_counter() - began
            wanted = min(planned.jobs, lead + options.calls)
            first = place.await_calls(planned.run, min(lead, wanted // 2), crew)
            last = place.await_calls(planned.run, wanted, crew)
            calls = wanted - min(lead, wanted // 2)
            rows.append(
                {"jobs_planned": planned.jobs, "plan_s": plan_s, "calls_per_s": calls / (last - first)}
            )
            pause_run(place.connection, run=planned.run, reason="The benchmark has seen enough.")
    return rows


def _strategies(jobs: int) -> int:
    return 1 if jobs < 10_000 else 10


if __name__ == "__main__":
    main(__doc__, add_options, measure)
