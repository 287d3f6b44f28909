"""What must hold after a run, whatever happened to it: job by job, and call by call against the gateway's record."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from db.connection import Connection
from db.text import from_database
from workers.context import stored_request
from workers.strategies import Answer, Reply, TaskView, strategy

Row = Mapping[str, Any]

SILENT = {"malformed_json", "truncated_stream", "missing_usage", "null_usage"}
"""Faults that are served and answered, and say nothing of usage: their rows have none."""
LOST = {"timeout", "timeout_after_serving", "reset", "reset_after_serving", "reset_mid_body", "close"}
"""Faults whose outcome a client can't know: their rows are `unknown`."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a run that holds all invariants looked like."""

    jobs: int
    calls: int
    ok: int
    error: int
    unknown: int
    lost_to_gateway: int
    """Unknown calls whose answer the gateway held back."""
    duplicates: int
    """Calls that were answered and are not used."""
    spoilt: int
    """Requests that the gateway answered with a fault, or not at all."""
    served: int
    served_unknown: int
    """Requests that were served and of which the ledger only knows that they may have been."""
    tokens_served: int
    tokens_ok: int
    tokens_error: int
    tokens_unknown: int
    tokens_silent: int


def check(connection: Connection, run: int, record: Sequence[Row], *, all_ok: bool = True) -> Findings:
    """Raise `AssertionError` for the first invariant that does not hold. `record` is the gateway's."""
    jobs = connection.execute(
        "SELECT id, trial, round, sample, state, attempt, answer_attempt, request FROM job WHERE run = %s ORDER BY id",
        [run],
    ).fetchall()
    calls = connection.execute("SELECT * FROM call WHERE run = %s ORDER BY job, attempt", [run]).fetchall()
    _all_final(connection, run, jobs, calls, all_ok=all_ok)
    _attempts(jobs, calls)
    _rounds(connection, run, jobs, calls)
    _tally(connection, run, calls)
    return _money(jobs, calls, record)


def check_store(connection: Connection, run: int) -> None:
    """What holds at any moment, between any two moves."""
    jobs = connection.execute(
        "SELECT id, trial, round, sample, state, attempt, answer_attempt, request FROM job WHERE run = %s",
        [run],
    ).fetchall()
    calls = connection.execute("SELECT * FROM call WHERE run = %s ORDER BY job, attempt", [run]).fetchall()
    _attempts(jobs, calls)
    if calls:
        _tally(connection, run, calls)
    forgotten = connection.execute(
        "SELECT id FROM trial WHERE run = %s AND state IN ('pending', 'running') AND NOT due AND NOT EXISTS "
        "(SELECT FROM job WHERE job.trial = trial.id AND job.state IN ('pending', 'queued', 'running'))",
        [run],
    ).fetchall()
    assert not forgotten
    useless = connection.execute(
        "SELECT job.id FROM job JOIN trial ON trial.id = job.trial WHERE job.run = %s "
        "AND trial.state NOT IN ('pending', 'running') AND job.state IN ('pending', 'queued')",
        [run],
    ).fetchall()
    assert not useless


def _all_final(
    connection: Connection, run: int, jobs: Sequence[Row], calls: Sequence[Row], *, all_ok: bool
) -> None:
    [state] = connection.execute("SELECT state, reason FROM run WHERE id = %s", [run]).fetchall()
    trials = connection.execute("SELECT id, state, reason FROM trial WHERE run = %s", [run]).fetchall()
    assert state == {"state": "finished", "reason": None}
    assert {job["state"] for job in jobs} <= {"ok", "failed", "cancelled"}
    assert not [trial for trial in trials if trial["state"] in ("pending", "running")]
    assert not [call for call in calls if call["status"] == "started"]
    if all_ok:
        assert not [trial for trial in trials if trial["state"] != "ok"]
        assert not [job for job in jobs if job["state"] != "ok"]


def _attempts(jobs: Sequence[Row], calls: Sequence[Row]) -> None:
    """Attempts are 1, 2, … n, each by its first turn, and an `ok` job uses exactly one `ok` call."""
    made: defaultdict[int, list[Row]] = defaultdict(list)
    for call in (call for call in calls if call["turn"] == 1):
        made[call["job"]].append(call)
    for job in jobs:
        own = made[job["id"]]
        assert [call["attempt"] for call in own] == list(range(1, job["attempt"] + 1)), job
        assert [call["purpose"] for call in own[1:]] == ["retry"] * len(own[1:]), job
        used = [call["status"] for call in own if call["attempt"] == job["answer_attempt"]]
        assert used == (["ok"] if job["state"] == "ok" else []), job


def _rounds(connection: Connection, run: int, jobs: Sequence[Row], calls: Sequence[Row]) -> None:
    """Each `ok` trial is what its strategy makes of the answers that are used: every round once, and the answer."""
    used = {(call["job"], call["attempt"]): from_database(call["content"] or "") for call in calls}
    own: defaultdict[int, list[Row]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: (job["round"], job["sample"])):
        own[job["trial"]].append(job)
    trials = connection.execute(
        "SELECT trial.id, trial.answer, task.task_id, task.goal, task.category, strategy.kind, strategy.params "
        "FROM trial JOIN task ON task.id = trial.task JOIN strategy ON strategy.id = trial.strategy "
        "WHERE trial.run = %s AND trial.state = 'ok'",
        [run],
    ).fetchall()
    for trial in trials:
        kind = strategy(trial["kind"], trial["params"])
        view = TaskView(task_id=trial["task_id"], goal=trial["goal"], category=trial["category"])
        expected = {(1, sample): None for sample in range(1, kind.opening_samples + 1)}
        replies: list[Reply] = []
        found = {(job["round"], job["sample"]): job for job in own[trial["id"]]}
        while True:
            stage = [slot for slot in expected if slot not in {(r.round, r.sample) for r in replies}]
            assert set(stage) <= found.keys(), trial
            for slot in stage:
                job = found[slot]
                assert job["request"] == expected[slot], job
                replies.append(
                    Reply(round=slot[0], sample=slot[1], content=used[job["id"], job["answer_attempt"]])
                )
            following = kind.proceed(view, replies)
            if isinstance(following, Answer):
                break
            expected |= {(call.round, call.sample): stored_request(call) for call in following}
        assert found.keys() == expected.keys(), trial
        assert from_database(trial["answer"]) == following.text, trial


def _tally(connection: Connection, run: int, calls: Sequence[Row]) -> None:
    [sums] = connection.execute(
        "SELECT sum(ok_calls)::int AS ok, sum(error_calls)::int AS error, sum(unknown_calls)::int AS unknown, "
        "sum(input_tokens)::int AS input_tokens, sum(output_tokens)::int AS output_tokens, "
        "sum(held_tokens)::int AS held_tokens, round(sum(cost_usd)::numeric, 6) AS cost_usd "
        "FROM tally WHERE run = %s",
        [run],
    ).fetchall()
    sums = {key: value or 0 for key, value in sums.items()}
    counted = Counter(call["status"] for call in calls)
    held = [
        call["reserve_tokens"]
        for call in calls
        if call["status"] == "unknown"
        or (
            call["total_tokens"] is None
            and (call["status"] == "ok" or 200 <= (call["http_status"] or 0) <= 299)
        )
    ]
    assert {key: value for key, value in sums.items() if key != "cost_usd"} == {
        "ok": counted["ok"],
        "error": counted["error"],
        "unknown": counted["unknown"],
        "input_tokens": sum(call["input_tokens"] or 0 for call in calls),
        "output_tokens": sum(call["output_tokens"] or 0 for call in calls),
        "held_tokens": sum(held),
    }
    assert abs(float(sums["cost_usd"]) - sum(call["cost_usd"] or 0 for call in calls)) < 1e-5


def _money(jobs: Sequence[Row], calls: Sequence[Row], record: Sequence[Row]) -> Findings:
    """Every request has its row, and every token served stands in it or is listed as unknown."""
    rows = {f"{call['job']}:{call['attempt']}": call for call in calls}
    asked = Counter(request["client_request_id"] for request in record)
    assert asked.keys() <= rows.keys(), asked.keys() - rows.keys()
    assert not [request for request, times in asked.items() if times > 1]
    served = {request["client_request_id"]: request for request in record if request["served"]}
    tokens: Counter[str] = Counter()
    for name, request in served.items():
        tokens[_place(rows[name], request)] += request["total_tokens"]
    for name, call in rows.items():
        if call["status"] == "ok" or call["total_tokens"] is not None:
            assert name in served, call
    assert sum(tokens.values()) == sum(request["total_tokens"] for request in served.values())
    known = Counter[str]()
    for call in calls:
        known[call["status"]] += call["total_tokens"] or 0
    assert (known["ok"], known["error"], known["unknown"]) == (tokens["ok"], tokens["error"], 0)
    faults = {request["client_request_id"]: request["fault"] for request in record}
    unknown = [name for name, call in rows.items() if call["status"] == "unknown"]
    answered = {(job["id"], job["answer_attempt"]) for job in jobs}
    return Findings(
        jobs=len(jobs),
        calls=len(calls),
        ok=sum(call["status"] == "ok" for call in calls),
        error=sum(call["status"] == "error" for call in calls),
        unknown=len(unknown),
        lost_to_gateway=sum(faults.get(name) in LOST for name in unknown),
        duplicates=sum(
            call["status"] == "ok" and (call["job"], call["attempt"]) not in answered for call in calls
        ),
        spoilt=sum(request["fault"] is not None for request in record),
        served=len(served),
        served_unknown=sum(name in served for name in unknown),
        tokens_served=sum(tokens.values()),
        tokens_ok=tokens["ok"],
        tokens_error=tokens["error"],
        tokens_unknown=tokens["unknown"],
        tokens_silent=tokens["silent"],
    )


def _place(call: Row, request: Row) -> str:
    """Where the ledger has the tokens of a request that was served."""
    if call["status"] == "unknown":
        return "unknown"
    if request["fault"] in SILENT:
        assert call["total_tokens"] is None, call
        return "silent"
    assert (call["response_id"], call["total_tokens"]) == (request["response_id"], request["total_tokens"]), (
        call
    )
    return str(call["status"])
