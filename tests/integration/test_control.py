"""Pause, resume, cancel and retry on a run that is at work."""

import signal
from pathlib import Path

import pytest

from db.connection import Connection
from db.runs import calls_in_flight, cancel_run, pause_run, resume_run, retry_trials
from paretoken.control import pause, resume
from paretoken.live import watch
from paretoken.processes import Crew
from paretoken.settings import BROKER_URL, DATABASE_URL
from paretoken.simulator import SimulatedGateway
from scheduler.errors import RunChanged
from scheduler.progress import progress
from tests.runs import KEY, ledger, served, start

SC_K3 = '[[strategies]]\nname = "sc_k3"\nkind = "self_consistency"\nk = 3\ntemperature = 0.7\n'


def test_pause_and_resume_lose_and_repeat_nothing(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    planned = start(connection, tmp_path, gateway, tasks=60, strategies=SC_K3)
    crew.start(workers=2, concurrency=4)

    def pause_in_the_middle() -> None:
        if progress(connection, "test").ok_calls >= 30:
            pause_run(connection, run=planned.run, reason="Paused by hand.")

    seen = watch(connection, "test", alive=pause_in_the_middle)
    assert (seen.state, seen.reason) == ("paused", "Paused by hand.")
    assert "queued" not in seen.jobs
    # A message that is still in the broker finds no queued job; a paused run has no way to start a call.
    assert resume_run(connection, run=planned.run)
    assert not resume_run(connection, run=planned.run)
    seen = watch(connection, "test", alive=crew.require_alive)
    rows = ledger(connection, planned)
    assert dict(seen.trials) == {"ok": 60}
    assert {row["response_id"]: row["total_tokens"] for row in rows} == served(gateway)
    assert len(rows) == 180
    assert {(row["attempt"], row["used"]) for row in rows} == {(1, True)}


@pytest.mark.parametrize(
    ("fault", "killed", "outcome"), [("slow_body", False, "ok"), ("timeout_after_serving", True, "unknown")]
)
def test_a_paused_run_is_watched_until_its_calls_in_flight_have_ended(
    connection: Connection,
    tmp_path: Path,
    gateway: SimulatedGateway,
    crew: Crew,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    killed: bool,
    outcome: str,
) -> None:
    """A lost worker's are ended by the reaper."""
    monkeypatch.setenv(DATABASE_URL, crew.services.database_url)
    monkeypatch.setenv(BROKER_URL, crew.services.broker_url)
    gateway.set_faults([{"kind": fault}])
    planned = start(connection, tmp_path, gateway, tasks=20)
    crew.start(workers=1, concurrency=8)

    def pause_with_calls_out() -> None:
        # Whoever may be gone by then, a run that is paused comes to its end.
        assert progress(connection, "test").state == "running"
        if calls_in_flight(connection, run=planned.run).calls:
            if killed:
                crew.children[1].send_signal(signal.SIGKILL)
            pause("test")

    seen = watch(connection, "test", alive=pause_with_calls_out)
    rows = ledger(connection, planned)
    assert "in flight will still be counted" in capsys.readouterr().out
    assert {row["status"] for row in rows} == {outcome}
    assert seen.state == "paused"
    assert seen.calls == len(rows) > 0
    assert calls_in_flight(connection, run=planned.run).calls == 0
    resume("test")
    assert ("No worker is there now" in capsys.readouterr().out) == killed


def test_cancel_is_final_and_counts_what_was_in_flight(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    gateway.set_faults([{"kind": "slow_body", "duration_s": 0.5}])
    planned = start(connection, tmp_path, gateway, tasks=60, strategies=SC_K3)
    crew.start(workers=1, concurrency=8)

    def cancel_in_the_middle() -> None:
        if progress(connection, "test").ok_calls >= 20:
            cancel_run(connection, run=planned.run)

    watch(connection, "test", alive=cancel_in_the_middle)
    crew.stop()
    seen = progress(connection, "test")
    assert seen.trials["cancelled"] > 0
    assert seen.trials.keys() <= {"ok", "cancelled"}
    assert seen.open_jobs == 0
    rows = ledger(connection, planned)
    assert {row["response_id"] for row in rows} == served(gateway).keys()
    assert not cancel_run(connection, run=planned.run)
    assert not resume_run(connection, run=planned.run)
    assert retry_trials(connection, run=planned.run, state="cancelled") == 0


def test_retry_repeats_only_what_failed(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    gateway.set_faults([{"kind": "context_length_exceeded", "contains": "Task 7:", "count": 1}])
    planned = start(connection, tmp_path, gateway, tasks=10, strategies=SC_K3)
    crew.start(workers=1, concurrency=1)
    seen = watch(connection, "test", alive=crew.require_alive)
    assert dict(seen.trials) == {"ok": 9, "failed": 1}
    assert "context_length in round 1" in reason(connection)
    assert retry_trials(connection, run=planned.run, state="failed") == 1
    seen = watch(connection, "test", alive=crew.require_alive)
    assert (seen.state, dict(seen.trials)) == ("finished", {"ok": 10})
    attempts = [row["attempt"] for row in ledger(connection, planned)]
    # 30 calls have an answer that is used; the refused one is the only second attempt.
    assert (attempts.count(1), attempts.count(2)) == (30, 1)


def reason(connection: Connection) -> str:
    row = connection.execute("SELECT reason FROM trial WHERE state = 'failed'").fetchone()
    assert row is not None
    return str(row["reason"])


def test_a_changed_experiment_is_refused_with_the_difference(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway
) -> None:
    start(connection, tmp_path, gateway, tasks=3)
    with pytest.raises(RunChanged, match=r"repeats: 1, now 2"):
        start(connection, tmp_path, gateway, tasks=3, top="repeats = 2")
    with pytest.raises(RunChanged, match=r"tasks: 3 entries, now 4"):
        start(connection, tmp_path, gateway, tasks=4)


def test_limits_may_change_between_two_starts(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway
) -> None:
    first = start(connection, tmp_path, gateway, tasks=3)
    second = start(connection, tmp_path, gateway, tasks=3, more="[limits]\nrequests_per_minute = 7\n")
    row = connection.execute(
        "SELECT experiment #>> '{limits,requests_per_minute}' AS rpm FROM run"
    ).fetchone()
    assert (second.run, second.continued) == (first.run, True)
    assert row == {"rpm": "7"}


def test_another_key_gets_lanes_of_its_own(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(connection, tmp_path, gateway, tasks=3, strategies=SC_K3)
    connection.execute("UPDATE run_lane SET proven_at = now()")
    connection.execute("UPDATE job SET state = 'ok' WHERE sample = 1")
    monkeypatch.setenv(KEY, "sk-another-0987654321")
    second = start(connection, tmp_path, gateway, tasks=3, strategies=SC_K3)
    assert (second.run, second.continued) == (first.run, True)
    assert any("key is another one" in warning for warning in second.warnings)
    [lane] = connection.execute("SELECT lane, proven_at FROM run_lane").fetchall()
    jobs = connection.execute(
        "SELECT state, count(*) AS jobs FROM job WHERE lane = %s GROUP BY state", [lane["lane"]]
    )
    # What is answered stays with the key that it was paid with; the new key must prove itself.
    assert [dict(row) for row in jobs] == [{"state": "pending", "jobs": 6}]
    assert lane["proven_at"] is None
    assert not any(
        "key" in warning
        for warning in start(connection, tmp_path, gateway, tasks=3, strategies=SC_K3).warnings
    )
