"""A finished run to look into, with answers that would harm whoever shows them as they are."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.connection import Connection
from db.text import escape_json, to_database
from scheduler.experiment import load
from scheduler.plan import plan
from tests.experiments import write_experiment

TASKS = 25
STRATEGIES = """
[[strategies]]
name = "baseline"
kind = "single"

[[strategies]]
name = "sc_k3"
kind = "self_consistency"
k = 3
temperature = 0.7

[[strategies]]
name = "refined"
kind = "self_refine"

[[judges]]
name = "referee"
kind = "pairwise"
"""
# Markup, a formula, a colour, NUL, text that runs backwards, half a surrogate pair; and the way out of an attribute.
HOSTILE = (
    "<script>document.title='owned'</script>=HYPERLINK(\"http://evil.example\") \x1b[31mred\x1b[0m NUL\x00 "
    '\u202egnp.exe \u05e9\u05dc\u05d5\u05dd lone\ud800 "><img src=http://evil.example/x onerror=alert(1)> {{ 7 * 7 }}'
)
SHOWN = ("\\u001b[31mred", "NUL\\u0000", "\\u202egnp.exe", "lone\\ud800")
"""How the page and the terminal show what cannot be sent."""
LONG = "A line without an end " * 50_000

# Every call of a job: the first one failed for a third of them, and all others were answered.
CALLS = """
INSERT INTO call (job, attempt, run, model, status, error, message, purpose, retry_reason, reserve_tokens, input_tokens,
                  output_tokens, total_tokens, cost_usd, content, http_status, finish_reason, latency_ms, worker,
                  key_fingerprint, finished_at)
SELECT job.id, tried.number, job.run, 'sim-small', CASE WHEN fails THEN 'error' ELSE 'ok' END,
       CASE WHEN fails THEN 'rate_limit' END, CASE WHEN fails THEN 'Too many requests.' END,
       CASE tried.number WHEN 1 THEN 'first' ELSE 'retry' END, CASE tried.number WHEN 2 THEN 'rate_limit' END, 1000,
       CASE WHEN NOT fails THEN 120 END, CASE WHEN NOT fails THEN 30 END, CASE WHEN NOT fails THEN 150 END,
       CASE WHEN NOT fails THEN 0.0002 END, CASE WHEN NOT fails THEN said.content END,
       CASE WHEN fails THEN 429 ELSE 200 END, CASE WHEN NOT fails THEN 'stop' END, 640, 'host:1:a', 'simulated', now()
FROM job CROSS JOIN generate_series(1, 2) AS tried (number)
CROSS JOIN LATERAL (SELECT job.id %% 3 = 0 AND tried.number = 1 AS fails) AS outcome
CROSS JOIN LATERAL (
  SELECT CASE job.id WHEN %(hostile_job)s THEN %(text)s WHEN %(long_job)s THEN %(long_text)s
                     WHEN %(judge_job)s THEN 'Winner: A' ELSE 'I think. Answer: ' || job.id END AS content) AS said
WHERE job.run = %(run)s AND (tried.number = 1 OR job.id %% 3 = 0)
ORDER BY job.id, tried.number
"""
ANSWERED = """
UPDATE job SET state = 'ok', attempt = CASE id %% 3 WHEN 0 THEN 2 ELSE 1 END,
               answer_attempt = CASE id %% 3 WHEN 0 THEN 2 ELSE 1 END
WHERE run = %(run)s
"""
ENDED = """
UPDATE trial SET state = CASE WHEN id %% 20 = 0 THEN 'failed' WHEN id %% 33 = 0 THEN 'review' ELSE 'ok' END,
                 reason = CASE WHEN id %% 20 = 0 THEN 'context_length in round 1' END,
                 answer = CASE WHEN id %% 20 > 0 THEN id::text END,
                 confirmed_success = CASE WHEN id %% 20 > 0 THEN id %% 2 = 0 END,
                 checks = '[{"kind": "number", "passed": true, "message": "as it should be", "seen": 42}]',
                 started_at = now(), finished_at = now()
WHERE run = %(run)s
"""
SECOND_ROUND = """
INSERT INTO job (run, trial, lane, round, sample, request, reserve_tokens)
SELECT trial.run, trial.id, (SELECT lane FROM run_lane WHERE run = trial.run), 2, 1, %(request)s, 10
FROM trial JOIN strategy ON strategy.id = trial.strategy
WHERE trial.run = %(run)s AND strategy.name = 'refined'
"""

HOSTILE_TEXTS = (
    "UPDATE trial SET answer = %(text)s, reason = %(text)s, detail = jsonb_build_object('votes', %(text)s::text) "
    "WHERE id = %(hostile)s",
    "UPDATE task SET goal = %(text)s, category = %(text)s WHERE run = %(run)s AND task_id = 't00001'",
    "INSERT INTO trial_file (trial, try, name, content) VALUES (%(hostile)s, 1, %(text)s, 'what it wrote')",
)
TALLIED = """
WITH finished AS (UPDATE run SET state = 'finished', finished_at = now() WHERE id = %(run)s)
INSERT INTO tally (run, owner, ok_calls, error_calls, input_tokens, output_tokens, cost_usd)
SELECT run, 'host:1:a', count(*) FILTER (WHERE status = 'ok'), count(*) FILTER (WHERE status = 'error'),
       sum(input_tokens), sum(output_tokens), sum(cost_usd)
FROM call WHERE run = %(run)s GROUP BY run
"""


@dataclass(frozen=True, kw_only=True)
class LookedInto:
    """The run and the trials that matter most."""

    run: int
    hostile: int
    """Trial of `refined` whose task, answer, reason and outputs are hostile."""
    hostile_job: int
    """Its call of round 2."""
    long: int
    """Trial of `baseline` with an output of a million characters."""
    long_job: int
    judge_job: int


def make(connection: Connection, folder: Path) -> LookedInto:
    """A run of 25 tasks and three strategies, with a judging and its verdict."""
    loaded = load(write_experiment(folder, tasks=TASKS, strategies=STRATEGIES))
    run = plan(connection, loaded, key_fingerprint="simulated", base_url="http://127.0.0.1:1").run
    request = escape_json({"messages": [{"role": "user", "content": f"Criticise: {HOSTILE}"}]})
    at: dict[str, Any] = {"run": run, "request": json.dumps(request), "text": to_database(HOSTILE)}
    connection.execute(SECOND_ROUND, at)
    hostile, long = (
        _trial(connection, run, "t00001", "refined"),
        _trial(connection, run, "t00002", "baseline"),
    )
    found = LookedInto(
        run=run,
        hostile=hostile,
        hostile_job=_job(connection, hostile, 2),
        long=long,
        long_job=_job(connection, long, 1),
        judge_job=_judge(connection, run, hostile, _trial(connection, run, "t00001", "baseline")),
    )
    for statement in (ANSWERED, CALLS, ENDED, *HOSTILE_TEXTS, TALLIED):
        connection.execute(statement, at | vars(found) | {"long_text": LONG})
    return found


def _trial(connection: Connection, run: int, task: str, strategy: str) -> int:
    row = connection.execute(
        "SELECT trial.id FROM trial JOIN task ON task.id = trial.task JOIN strategy ON strategy.id = trial.strategy "
        "WHERE trial.run = %s AND task_id = %s AND strategy.name = %s",
        [run, task, strategy],
    ).fetchone()
    assert row is not None
    return int(row["id"])


def _job(connection: Connection, trial: int, round_: int) -> int:
    row = connection.execute("SELECT id FROM job WHERE trial = %s AND round = %s", [trial, round_]).fetchone()
    assert row is not None
    return int(row["id"])


def _judge(connection: Connection, run: int, winner: int, loser: int) -> int:
    """A judging that the first trial won, with one call."""
    at = {"run": run, "winner": winner, "loser": loser, "question": json.dumps([winner, loser])}
    row = connection.execute(
        "WITH judging AS (INSERT INTO judging (run, task, repeat, number, judge, kind, question, state, readings) "
        "  SELECT run, task, repeat, 1, 'referee', 'pairwise', %(question)s, 'ok', '[]' FROM trial "
        "  WHERE id = %(winner)s RETURNING id, run, task), "
        "verdict AS (INSERT INTO verdict (run, judging, task, winner, loser, tie) "
        "  SELECT run, id, task, %(winner)s, %(loser)s, false FROM judging) "
        "INSERT INTO job (run, judging, lane, round, sample, reserve_tokens) "
        "SELECT run, id, (SELECT lane FROM run_lane WHERE run = judging.run), 1, 1, 10 FROM judging RETURNING id",
        at,
    ).fetchone()
    assert row is not None
    return int(row["id"])
