"""What the whole system costs beside bare loops over the SDK on the same gateway: calls per second, CPU per call.

    python -m benchmarks.overhead --calls 5000 --rounds 3
    python -m benchmarks.overhead --calls 5000 --sigma 0.8

All take turns in every round, and the best of the rounds counts: times drift, ratios less. A call of the system is a
trial of its own, the dearest kind: planned, queued, limited, in the ledger before it is sent, settled, checked.
"""

import argparse
from collections.abc import Callable, Sequence

from benchmarks.loops import Loops, loops
from benchmarks.results import Row, Tables, main, ratio
from benchmarks.stage import Stage, crew_cpu_s, stage
from paretoken.processes import Crew

LOOPS = {
    "plain": "bare loop, chat.completions.create",
    "fast": "bare loop, post over aiohttp",
    "client": "bare loop, the workers' client",
}
_WARM_CALLS = 100


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=500, help="of each contestant in each round")
    parser.add_argument("--samples", type=int, default=1, help="calls per trial of the system")
    parser.add_argument(
        "--concurrency", type=int, default=200, help="calls in flight, of all processes together"
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="worker processes")
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=list(LOOPS))
    parser.add_argument("--latency-ms", type=float, default=200, help="median of the gateway's latency")
    parser.add_argument("--sigma", type=float, default=0, help="of log-normal latencies; 0: all the same")
    parser.add_argument("--rounds", type=int, default=1, help="the best one counts")


def measure(options: argparse.Namespace, crew: type[Crew] = Crew) -> Tables:
    found: dict[str, list[Row]] = {}
    with stage(latency_ms=options.latency_ms, sigma=options.sigma, crew=crew) as place, loops() as looped:
        contestants = _contestants(place, looped, options)
        for number in range(1, options.rounds + 1):
            for name, contest in contestants.items():
                found.setdefault(name, []).append(contest(number))
    best = {name: _best(rounds) for name, rounds in found.items()}
    rows = [_row(name, row, best) for name, row in best.items()]
    return {_title(options): rows, "Limits": _limits(best)}


def _contestants(place: Stage, looped: Loops, options: argparse.Namespace) -> dict[str, Callable[[int], Row]]:
    def loop(kind: str) -> Callable[[int], Row]:
        return lambda _: _loop(place, looped, kind, options)

    def system(workers: int) -> Callable[[int], Row]:
        return lambda number: _system(place, workers, number, options)

    return {LOOPS[kind]: loop(kind) for kind in options.loops} | {
        _system_name(workers): system(workers) for workers in options.workers
    }


def _system_name(workers: int) -> str:
    return f"Paretoken, {workers} worker process{'es' if workers > 1 else ''}"


def _loop(place: Stage, looped: Loops, kind: str, options: argparse.Namespace) -> Row:
    asked = {
        "kind": kind,
        "base_url": place.gateway.base_url,
        "calls": options.calls,
        "concurrency": options.concurrency,
    }
    before = place.gateway.stats()["cpu_s"]
    done = looped(asked)
    return {
        "calls": done["calls"],
        "calls_per_s": done["calls"] / done["seconds"],
        "cpu_s": done["cpu_s"],
        "server_cpu_s": 0.0,
        "gateway_cpu_s": place.gateway.stats()["cpu_s"] - before,
    }


def _system(place: Stage, workers: int, number: int, options: argparse.Namespace) -> Row:
    tasks = -(-options.calls // options.samples)
    with place.working(workers=workers, concurrency=-(-options.concurrency // workers)) as crew:
        warm = place.plan(f"warm-{workers}-{number}", tasks=_WARM_CALLS)
        place.await_end(warm.run, crew)
        before = crew_cpu_s(crew), place.server_cpu_s(), place.gateway.stats()["cpu_s"]
        planned = place.plan(f"run-{workers}-{number}", tasks=tasks, samples=options.samples)
        place.await_end(planned.run, crew)
        after = crew_cpu_s(crew), place.server_cpu_s(), place.gateway.stats()["cpu_s"]
    servers = None if after[1] is None or before[1] is None else after[1] - before[1]
    return {
        "calls": planned.jobs,
        "calls_per_s": place.calls_per_s(planned.run),
        "cpu_s": after[0] - before[0],
        "server_cpu_s": servers,
        "gateway_cpu_s": after[2] - before[2],
    }


def _best(rounds: Sequence[Row]) -> Row:
    """The fastest pace and the least CPU, each of its best round."""

    def least(name: str) -> float | None:
        values = [row[name] for row in rounds if row[name] is not None]
        return min(values, default=None)

    calls = rounds[0]["calls"]
    per_call = {
        f"{name.removesuffix('_s')}_ms_per_call": None if least(name) is None else 1000 * least(name) / calls
        for name in ("cpu_s", "server_cpu_s", "gateway_cpu_s")
    }
    return {"calls": calls, "calls_per_s": max(row["calls_per_s"] for row in rounds), **per_call}


def _row(name: str, row: Row, best: dict[str, Row]) -> Row:
    plain, fast = best.get(LOOPS["plain"], {}), best.get(LOOPS["fast"], {})
    return {
        "contestant": name,
        **row,
        "pace_of_plain": ratio(row["calls_per_s"], plain.get("calls_per_s")),
        "pace_of_fast": ratio(row["calls_per_s"], fast.get("calls_per_s")),
        "cpu_of_plain": ratio(row["cpu_ms_per_call"], plain.get("cpu_ms_per_call")),
    }


def _limits(best: dict[str, Row]) -> list[Row]:
    """The ledger's own CPU: scheduler and workers without what the same client takes in a bare loop."""
    one, client, plain = (best.get(name) for name in (_system_name(1), LOOPS["client"], LOOPS["plain"]))
    rows: list[Row] = []
    if one and client:
        own_ms = one["cpu_ms_per_call"] - client["cpu_ms_per_call"]
        rows.append(_limit("the ledger's own CPU, ms per call", own_ms, "at most 1.0", own_ms <= 1.0))
    if one and plain:
        pace = one["calls_per_s"] / plain["calls_per_s"]
        rows.append(_limit("one process beside the plain loop", pace, "above 1", pace > 1))
    return rows


def _limit(what: str, value: float, wanted: str, met: bool) -> Row:
    return {"what": what, "value": round(value, 3), "wanted": wanted, "met": met}


def _title(options: argparse.Namespace) -> str:
    spread = f", log-normal with σ {options.sigma}" if options.sigma else ""
    return (
        f"{options.calls:,} calls at {options.latency_ms:g} ms{spread}, {options.concurrency} in flight, "
        f"best of {options.rounds}"
    )


if __name__ == "__main__":
    main(__doc__, add_options, measure)
