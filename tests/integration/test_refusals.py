"""What a gateway refuses: what dooms all pauses the run, what dooms one fails one, what passes is tried again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from db.connection import Connection
from db.runs import resume_run
from paretoken.description import describe
from paretoken.live import watch
from paretoken.processes import Crew
from paretoken.simulator import SimulatedGateway
from scheduler.progress import progress
from tests.runs import ledger, start

DOOMING = [
    ("invalid_api_key", "unauthorized"),
    ("payment_required", "payment_required"),
    ("forbidden", "forbidden"),
    ("model_not_found", "not_found"),
    ("insufficient_quota", "quota_exhausted"),
    ("spending_limit", "quota_exhausted"),
]


def test_a_refusal_that_dooms_all_costs_one_request_and_pauses_the_run(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    crew.start(workers=2, concurrency=8)
    for kind, error in DOOMING:
        gateway.clear_record()
        gateway.set_faults([{"kind": kind}])
        planned = start(connection, tmp_path, gateway, tasks=20, run_id=kind)
        seen = watch(connection, kind, alive=crew.require_alive)
        assert (seen.state, gateway.stats()["requests"]) == ("paused", 1), kind
        assert f"paretoken resume {kind}" in (seen.reason or "")
        assert dict(seen.errors) == {error: 1}
        gateway.set_faults([])
        resume_run(connection, run=planned.run)
        seen = watch(connection, kind, alive=crew.require_alive)
        assert (seen.state, dict(seen.trials)) == ("finished", {"ok": 20}), kind
        # The refused call is the only one that was repeated.
        assert sorted(row["attempt"] for row in ledger(connection, planned)) == [1] * 20 + [2]


def test_a_refusal_in_mid_run_stops_what_has_not_started(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    start(connection, tmp_path, gateway, tasks=100)

    def refuse_from_the_middle() -> None:
        if progress(connection, "test").ok_calls >= 20:
            gateway.set_faults([{"kind": "insufficient_quota"}])

    crew.start(workers=1, concurrency=4)
    seen = watch(connection, "test", alive=refuse_from_the_middle)
    assert seen.state == "paused"
    first = connection.execute(
        "SELECT min(finished_at) AS at FROM call WHERE error = 'quota_exhausted'"
    ).fetchone()
    started_later = connection.execute(
        "SELECT count(*) AS calls FROM call WHERE started_at > %s", [first and first["at"]]
    ).fetchone()
    # Calls that were under way when the first refusal settled; none was started after the pause was committed.
    assert started_later is not None
    assert started_later["calls"] <= 4


def test_one_overlong_prompt_fails_its_own_job_only(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    gateway.set_faults([{"kind": "context_length_exceeded", "contains": "Task 50:"}])
    planned = start(connection, tmp_path, gateway, tasks=100)
    crew.start(workers=1, concurrency=32)
    seen = watch(connection, "test", alive=crew.require_alive)
    assert (seen.state, dict(seen.trials)) == ("finished", {"ok": 99, "failed": 1})
    failed = [row for row in ledger(connection, planned) if row["status"] == "error"]
    assert [(row["task_id"], row["error"], row["attempt"]) for row in failed] == [
        ("t00050", "context_length", 1)
    ]


# What came back once -> (status, error) of that call; the job is tried again and its second answer counts.
PASSING = [
    ("server_error", "error", "server_error"),
    ("html", "error", "bad_response"),
    ("plain_string", "error", "bad_response"),
    ("error_with_200", "error", "bad_response"),
    ("malformed_json", "error", "bad_response"),
    ("empty_choices", "error", "bad_response"),
    ("request_timeout", "error", "timeout"),
    ("conflict", "error", "server_error"),
    ("reset_after_serving", "unknown", "unknown_outcome"),
    ("rate_limited", "error", "rate_limit"),
]


def test_what_passes_is_tried_again_and_nothing_counts_as_zero(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    gateway.set_faults(
        [
            {"kind": kind, "contains": f"Task {number}:", "count": 1}
            for number, (kind, _, _) in enumerate(PASSING, start=1)
        ]
    )
    planned = start(connection, tmp_path, gateway, tasks=len(PASSING) + 1)
    crew.start(workers=1, concurrency=8)
    seen = watch(connection, "test", alive=crew.require_alive)
    rows = {(row["task_id"], row["attempt"]): row for row in ledger(connection, planned)}
    assert dict(seen.trials) == {"ok": len(PASSING) + 1}
    for number, (kind, status, error) in enumerate(PASSING, start=1):
        task = f"t{number:05d}"
        first, second = rows[task, 1], rows[task, 2]
        assert (first["status"], first["error"], first["used"]) == (status, error, False), kind
        # The empty choice list came with its usage, which is kept; what came without is unknown.
        assert (first["total_tokens"] is None) == (kind != "empty_choices"), kind
        assert first["total_tokens"] != 0
        assert first["purpose"] == "first"
        assert (second["status"], second["used"], second["purpose"]) == ("ok", True, "retry"), kind
        assert second["retry_reason"] == error, kind
        assert second["total_tokens"] > 0


def test_unknown_usage_is_empty_and_counted(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    gateway.set_faults(
        [
            {"kind": "missing_usage", "contains": "Task 1:"},
            {"kind": "null_usage", "contains": "Task 2:"},
            {"kind": "empty_content", "contains": "Task 3:"},
        ]
    )
    planned = start(connection, tmp_path, gateway, tasks=4)
    crew.start(workers=1, concurrency=4)
    seen = watch(connection, "test", alive=crew.require_alive)
    rows = {row["task_id"]: row for row in ledger(connection, planned)}
    for task in ("t00001", "t00002"):
        assert (rows[task]["status"], rows[task]["used"]) == ("ok", True)
        assert (rows[task]["total_tokens"], rows[task]["cost_usd"]) == (None, None)
    assert (rows["t00003"]["status"], rows["t00003"]["error"]) == ("error", "empty_output")
    assert rows["t00003"]["total_tokens"] > 0
    assert (seen.unknown_usage_calls, dict(seen.trials)) == (2, {"ok": 3, "failed": 1})


class Held(Exception):
    """The test has seen what it waited for."""


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "90"}, 90),
        ({"Retry-After": "198300"}, 198_300),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"Retry-After": "in 65 s"}, 65),
    ],
)
def test_a_long_wait_is_held_in_postgres_and_shown(
    connection: Connection,
    tmp_path: Path,
    gateway: SimulatedGateway,
    crew: Crew,
    headers: dict[str, str],
    seconds: int,
) -> None:
    if headers.get("Retry-After") == "in 65 s":
        headers = {"Retry-After": format_datetime(datetime.now(UTC) + timedelta(seconds=65), usegmt=True)}
        # The gateway answers some seconds after the header was written.
        tolerance = 60
    else:
        tolerance = 1
    gateway.set_faults([{"kind": "rate_limited", "count": 1, "headers": headers}])
    start(connection, tmp_path, gateway, tasks=20)
    crew.start(workers=2, concurrency=4)
    held: list[float] = []

    def until_held() -> None:
        row = connection.execute(
            "SELECT extract(epoch FROM hold_until - finished_at)::float8 AS hold_s FROM lane, call "
            "WHERE hold_until IS NOT NULL AND call.error = 'rate_limit'"
        ).fetchone()
        if row:
            held.append(row["hold_s"])
            raise Held

    with pytest.raises(Held):
        watch(connection, "test", alive=until_held)
    assert held[0] == pytest.approx(seconds, abs=tolerance)
    # Both the hold and the job's own time keep everything back; the scheduler has seen it when it ticks again.
    seen = progress(connection, "test")
    assert any("the gateway asked all to wait until" in line for line in describe(seen))
    assert gateway.stats()["requests"] == 1
    assert sum(seen.jobs.values()) == 20
