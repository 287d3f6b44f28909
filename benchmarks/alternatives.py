"""What people would use instead, on the same gateway: pace, CPU, and what each leaves behind after `kill -9`.

    python -m benchmarks.alternatives --calls 2000 --rounds 3 --install
    python -m benchmarks.alternatives --inspect-python /path/to/venv/bin/python

Beside Paretoken: a parallel processor in the style of the OpenAI cookbook (`benchmarks.parallel_processor`), and
inspect-ai, which is left out, with the reason said, where no Python has it. `--install` makes a virtual environment
for it.

For the second table everything is killed when half of the calls are answered: how many answers can be read then, and
of how many requests that the gateway had got, and is paid for, there is no trace. Then the same command is given again.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Row, Tables, main, ratio
from benchmarks.stage import Stage, crew_cpu_s, stage
from paretoken.processes import Crew

INSPECT = Path(__file__).with_name("inspect_samples.py")
_LOOK_S = 0.01
_OURS, _PROCESSOR, _INSPECT = (
    "Paretoken, 1 worker process",
    "parallel processor, cookbook style",
    "inspect-ai",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=200, help="calls in flight")
    parser.add_argument("--latency-ms", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=1, help="the best one counts")
    parser.add_argument("--inspect-python", type=Path, help="a Python that has inspect-ai")
    parser.add_argument("--install", action="store_true", help="install inspect-ai with pip for the while")


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another program that makes the same calls."""

    command: Callable[[Path], Sequence[str]]
    """For a folder of its own."""
    known: Callable[[Path], int]
    """Answers that can be read in that folder."""
    environment: dict[str, str]


def measure(options: argparse.Namespace, crew: type[Crew] = Crew) -> Tables:
    with stage(latency_ms=options.latency_ms, crew=crew) as place:
        others = {_PROCESSOR: _processor(place, options)}
        python, reason = _inspect_python(place, options)
        if python is not None:
            others[_INSPECT] = _inspect(place, python, options)
        paces: dict[str, list[Row]] = {}
        for number in range(options.rounds):
            paces.setdefault(_OURS, []).append(_our_pace(place, number, options))
            for name, other in others.items():
                paces.setdefault(name, []).append(_pace(place, other, f"{name}-{number}", options))
        killed = [_our_kill(place, options)]
        killed += [_kill(place, name, other, options) for name, other in others.items()]
    best = {name: {key: min(row[key] for row in rows) for key in rows[0]} for name, rows in paces.items()}
    tables = {
        f"{options.calls:,} calls at {options.latency_ms:g} ms, {options.concurrency} in flight": [
            {
                "program": name,
                "calls_per_s": options.calls / row["seconds"],
                "cpu_ms_per_call": 1000 * row["cpu_s"] / options.calls,
                "pace_of_ours": ratio(best[_OURS]["seconds"], row["seconds"]),
            }
            for name, row in best.items()
        ],
        "Killed when half of the calls were answered": killed,
    }
    return tables if python else tables | {"Left out": [{"program": _INSPECT, "reason": reason}]}


def _processor(place: Stage, options: argparse.Namespace) -> Alternative:
    arguments = [f"--base-url={place.gateway.base_url}", f"--calls={options.calls}"]
    command = [sys.executable, "-m", "benchmarks.parallel_processor", *arguments]

    def known(folder: Path) -> int:
        lines = (folder / "answers.jsonl").read_text().split("\n")[:-1]
        return sum("errors" not in json.loads(line)[1] for line in lines)

    return Alternative(
        command=lambda folder: [
            *command,
            f"--concurrency={options.concurrency}",
            f"--out={folder}/answers.jsonl",
        ],
        known=known,
        environment=dict(os.environ),
    )


def _inspect(place: Stage, python: Path, options: argparse.Namespace) -> Alternative:
    environment = os.environ | {
        "BENCH_API_KEY": "sk-benchmark",
        "BENCH_BASE_URL": place.gateway.base_url,
        "XDG_DATA_HOME": str(place.folder / "inspect"),
    }

    def known(folder: Path) -> int:
        counted = subprocess.run(
            [python, INSPECT, "count", folder], env=environment, capture_output=True, check=True
        )
        return int(json.loads(counted.stdout.splitlines()[-1])["samples"])

    numbers = [str(options.calls), str(options.concurrency)]
    return Alternative(
        command=lambda folder: [str(python), str(INSPECT), "evaluate", *numbers, str(folder)],
        known=known,
        environment=environment,
    )


def _inspect_python(place: Stage, options: argparse.Namespace) -> tuple[Path | None, str]:
    """A Python that has inspect-ai, or why there is none."""
    if options.inspect_python is not None:
        return options.inspect_python, ""
    if not options.install:
        return None, "not asked for: --install or --inspect-python"
    home = place.folder / "inspect-venv"
    python = home / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", "inspect-ai", "openai"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None, f"cannot be installed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    return python, ""


def _pace(place: Stage, other: Alternative, name: str, options: argparse.Namespace) -> Row:
    folder = _folder(place, name)
    done = subprocess.run(
        other.command(folder), env=other.environment, capture_output=True, text=True, check=True
    )
    assert other.known(folder) == options.calls
    found = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": found["seconds"], "cpu_s": found["cpu_s"]}


def _our_pace(place: Stage, number: int, options: argparse.Namespace) -> Row:
    with place.working(workers=1, concurrency=options.concurrency) as crew:
        place.await_end(place.plan(f"warm-{number}", tasks=50).run, crew)
        used = crew_cpu_s(crew)
        planned = place.plan(f"pace-{number}", tasks=options.calls)
        place.await_end(planned.run, crew)
        used = crew_cpu_s(crew) - used
    return {"seconds": options.calls / place.calls_per_s(planned.run), "cpu_s": used}


def _kill(place: Stage, name: str, other: Alternative, options: argparse.Namespace) -> Row:
    folder = _folder(place, f"{name}-killed")
    start = place.gateway.stats()
    log = (place.folder / "killed.log").open("ab")
    with (
        log,
        subprocess.Popen(other.command(folder), env=other.environment, stdout=log, stderr=log) as process,
    ):
        while place.gateway.stats()["answered"] - start["answered"] < options.calls // 2:
            assert process.poll() is None, (place.folder / "killed.log").read_text()
            time.sleep(_LOOK_S)
        process.send_signal(signal.SIGKILL)
    paid = place.gateway.stats()["received"] - start["received"]
    known = other.known(folder)
    subprocess.run(other.command(folder), env=other.environment, capture_output=True, check=True)
    again = place.gateway.stats()["received"] - start["received"] - paid
    return _killed(name, options, paid=paid, known=known, traces=known, again=again)


def _our_kill(place: Stage, options: argparse.Namespace) -> Row:
    start = place.gateway.stats()
    with place.working(workers=1, concurrency=options.concurrency) as crew:
        planned = place.plan("killed", tasks=options.calls)
        place.await_calls(planned.run, options.calls // 2, crew)
        for child in crew.children:
            child.send_signal(signal.SIGKILL)
        for child in crew.children:
            child.wait()
    # What had been sent arrives yet.
    time.sleep(0.1)
    paid = place.gateway.stats()["received"] - start["received"]
    known, traces = _ledger(place, planned.run)
    with place.working(workers=1, concurrency=options.concurrency) as crew:
        place.await_end(planned.run, crew)
    again = place.gateway.stats()["received"] - start["received"] - paid
    return _killed(_OURS, options, paid=paid, known=known, traces=traces, again=again)


def _ledger(place: Stage, run: int) -> tuple[int, int]:
    """Answers in the ledger, and all rows: those of calls without an answer are traces too."""
    row = place.connection.execute(
        "SELECT count(*) FILTER (WHERE status = 'ok') AS known, count(*) AS traces FROM call WHERE run = %s",
        [run],
    ).fetchone()
    assert row is not None
    return row["known"], row["traces"]


def _killed(name: str, options: argparse.Namespace, *, paid: int, known: int, traces: int, again: int) -> Row:
    return {
        "program": name,
        "requests_at_the_gateway": paid,
        "answers_known": known,
        "requests_without_a_trace": max(paid - traces, 0),
        "requests_made_again": again,
        "of_them_needed": options.calls - known,
    }


def _folder(place: Stage, name: str) -> Path:
    folder = place.folder / name.replace(" ", "-")
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main(__doc__, add_options, measure)
