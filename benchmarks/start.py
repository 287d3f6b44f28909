"""How long a person waits: for the help, and for the first call of a run on warm servers.

python -m benchmarks.start --rounds 5 --runs 3
"""

import argparse
import os
import sys
import time

from benchmarks.results import Row, Tables, main
from benchmarks.stage import Stage, stage
from benchmarks.usage import run_command
from paretoken.processes import Crew

MOST_HELP_S, MOST_FIRST_CALL_S = 0.3, 8.0
PARETOKEN = [sys.executable, "-m", "paretoken"]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=1, help="of the help; the best one counts")
    parser.add_argument("--runs", type=int, default=1, help="the best one counts")
    parser.add_argument("--tasks", type=int, default=20, help="calls of the run")


def measure(options: argparse.Namespace, crew: type[Crew] = Crew) -> Tables:
    with stage(latency_ms=20, crew=crew) as place:
        helped = [run_command([*PARETOKEN, "--help"]) for _ in range(options.rounds)]
        assert all("Usage: paretoken" in done.output for done in helped)
        runs = [_run(place, f"start-{number}", options.tasks) for number in range(1, options.runs + 1)]
    rows = [_row("paretoken --help", min(done.seconds for done in helped), MOST_HELP_S)]
    if runs:
        first_s, whole_s = (min(seconds) for seconds in zip(*runs, strict=True))
        rows += [
            _row("paretoken run: first call at the gateway", first_s, MOST_FIRST_CALL_S),
            _row(f"paretoken run: {options.tasks} calls and all tables", whole_s, None),
        ]
    return {f"Seconds from the command, best of {options.rounds} and of {options.runs}": rows}


def _run(place: Stage, run_id: str, tasks: int) -> tuple[float, float]:
    """Seconds from the command to the first call, and to its end."""
    place.gateway.forget()
    experiment = place.experiment(run_id, tasks=tasks)
    command = [*PARETOKEN, "run", str(experiment), "--out", str(place.folder / run_id)]
    began = time.time()
    done = run_command(command, dict(os.environ))
    assert done.code == 0, done.output
    return place.gateway.stats()["first_at"] - began, done.seconds


def _row(what: str, seconds: float, most: float | None) -> Row:
    return {
        "command": what,
        "seconds": round(seconds, 2),
        "wanted": "" if most is None else f"below {most:g}",
        "met": None if most is None else seconds < most,
    }


if __name__ == "__main__":
    main(__doc__, add_options, measure)
