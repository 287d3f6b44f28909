"""Reading a large run: status, audit, report, export and import, each as the command of a user.

    python -m benchmarks.reading --tasks 10000 --strategies 10 --samples 10

The run is planned as any other; its calls are made by SQL, not by a gateway. Peak memory is that of the command's own
process; Postgres keeps to its shared buffers and work_mem. Of `status`, over in a moment, the best of five counts.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.results import Row, Tables, main
from benchmarks.stage import Stage, stage
from benchmarks.usage import Command, run_command
from paretoken.processes import Crew

RUN = "large"
PARETOKEN = [sys.executable, "-m", "paretoken"]

# Each as a crew leaves it: answered at its first attempt, but for one in 200, which failed and was made again.
_CALLS = """
INSERT INTO call (job, attempt, run, model, status, error, http_status, purpose, reserve_tokens, input_tokens,
                  output_tokens, total_tokens, usage, cost_usd, content, response_id, finish_reason, latency_ms,
                  first_byte_ms, worker, key_fingerprint, started_at, finished_at)
SELECT job.id, made.attempt, job.run, 'bench', CASE WHEN good THEN 'ok' ELSE 'error' END,
       CASE WHEN NOT good THEN 'server_error' END, CASE WHEN good THEN 200 ELSE 503 END,
       CASE made.attempt WHEN 1 THEN 'first' ELSE 'retry' END, job.reserve_tokens,
       CASE WHEN good THEN 30 + job.id %% 40 END, CASE WHEN good THEN 5 + job.id %% 200 END,
       CASE WHEN good THEN 35 + job.id %% 40 + job.id %% 200 END,
       CASE WHEN good THEN '{"prompt_tokens": 30, "completion_tokens": 5}'::jsonb END,
       CASE WHEN good THEN 1e-6 * (30 + job.id %% 40 + 4 * (5 + job.id %% 200)) END,
       CASE WHEN good THEN repeat('The answer follows from the two numbers. ', 3) || job.id END,
       CASE WHEN good THEN 'bench-' || job.id END, CASE WHEN good THEN 'stop' END, 200 + job.id %% 1000,
       200 + job.id %% 900, 'worker-' || job.id %% 4, 'key', now() - interval '1 hour' + job.id * interval '3 ms',
       now() - interval '1 hour' + job.id * interval '3 ms' + interval '200 ms'
FROM job CROSS JOIN LATERAL (
  SELECT number AS attempt, job.id %% 200 > 0 OR number = 2 AS good
  FROM generate_series(1, CASE WHEN job.id %% 200 > 0 THEN 1 ELSE 2 END) AS number) AS made
WHERE job.run = %(run)s"""
_JOBS = """UPDATE job SET state = 'ok', dispatch_no = 1, attempt = CASE WHEN id %% 200 > 0 THEN 1 ELSE 2 END,
  answer_attempt = CASE WHEN id %% 200 > 0 THEN 1 ELSE 2 END WHERE run = %(run)s"""
# Strategies differ in how often they are right, so that there is something to rank.
_TRIALS = """
UPDATE trial SET state = 'ok', answer = 'The answer is 42.', started_at = now() - interval '1 hour',
  finished_at = now(), confirmed_success = (trial.id * 7919 + trial.task * 104729) %% 100 < 40 + 3 * strategy.position
FROM strategy WHERE strategy.id = trial.strategy AND trial.run = %(run)s"""
_TALLY = """
INSERT INTO tally (run, owner, ok_calls, error_calls, input_tokens, output_tokens, cost_usd)
SELECT run, 'made', count(*) FILTER (WHERE status = 'ok'), count(*) FILTER (WHERE status = 'error'),
       sum(input_tokens), sum(output_tokens), sum(cost_usd)
FROM call WHERE run = %(run)s GROUP BY run"""
_FINISH = "UPDATE run SET state = 'finished', finished_at = now() WHERE id = %(run)s"
_RUNS = """SELECT run.run_id, count(*) AS calls FROM call JOIN run ON run.id = call.run
GROUP BY run.id ORDER BY run.id"""
_VACUUM = "VACUUM (ANALYZE) job, trial, call, task"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--strategies", type=int, default=10)
    parser.add_argument("--samples", type=int, default=10, help="calls per trial")
    parser.add_argument("--only", nargs="+", help="words that the measured commands begin with, e.g. export")


def measure(options: argparse.Namespace, crew: type[Crew] = Crew) -> Tables:
    with stage(latency_ms=0, crew=crew) as place:
        calls = _make_run(place, options)
        rows = [
            _timed(place, arguments, most_s)
            for arguments, most_s in _commands(place.folder)
            if not options.only or arguments[0] in options.only
        ]
        runs = place.connection.execute(_RUNS).fetchall()
    assert all(run["calls"] == calls for run in runs)
    return {f"A run of {calls:,} calls": rows, "Runs in the database then": [dict(run) for run in runs]}


def _make_run(place: Stage, options: argparse.Namespace) -> int:
    planned = place.plan(RUN, tasks=options.tasks, strategies=options.strategies, samples=options.samples)
    at = {"run": planned.run}
    with place.connection.transaction():
        calls = place.connection.execute(_CALLS, at).rowcount
        for statement in (_JOBS, _TRIALS, _TALLY, _FINISH):
            place.connection.execute(statement, at)
    place.connection.execute(_VACUUM)
    return calls


def _commands(folder: Path) -> list[tuple[list[str], float]]:
    """Arguments, and the seconds that they may take."""
    lines, table = str(folder / "ledger.jsonl"), str(folder / "ledger.parquet")
    return [
        (["status", RUN], 0.3),
        (["audit", RUN], 10),
        (["report", RUN, "--out", str(folder / "report")], 30),
        (["export", RUN, "--out", lines], 30),
        (["export", RUN, "--out", table], 15),
        (["import", lines, "--run-id", "from-lines"], 30),
        (["import", table, "--run-id", "from-parquet"], 30),
    ]


def _timed(place: Stage, arguments: list[str], most_s: float) -> Row:
    rounds = 5 if arguments[0] == "status" else 1
    done = min((_run(place, arguments) for _ in range(rounds)), key=lambda one: one.seconds)
    shown = " ".join(Path(word).name for word in arguments)
    print(f"{shown}: {done.seconds:.1f} s", file=sys.stderr, flush=True)
    return {
        "command": f"paretoken {shown}",
        "seconds": round(done.seconds, 2),
        "cpu_s": round(done.cpu_s, 2),
        "peak_mb": round(done.peak_mb),
        "wanted": f"below {most_s:g} s",
        "met": done.seconds < most_s,
    }


def _run(place: Stage, arguments: list[str]) -> Command:
    done = run_command([*PARETOKEN, *arguments], place.environment)
    assert "Usage: " not in done.output, done.output
    # 1: it has been done, and something in the run needs attention.
    assert done.code in (0, 1), done.output
    return done


if __name__ == "__main__":
    main(__doc__, add_options, measure)
