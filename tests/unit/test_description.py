"""The words in which a run's state is shown."""

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from paretoken.description import Pace, describe
from scheduler.progress import Progress, Wait

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GIVEN: dict[str, Any] = {
    "run": 1,
    "run_id": "test",
    "state": "running",
    "reason": None,
    "simulated": False,
    "created_at": NOW,
    "finished_at": None,
    "trials": {"pending": 5, "ok": 2, "running": 1, "failed": 1},
    "jobs": {"pending": 12, "queued": 3, "running": 5},
    "ok_calls": 20,
    "error_calls": 4,
    "unknown_calls": 0,
    "input_tokens": 1_234,
    "output_tokens": 567,
    "cost_usd": 0.25,
    "reserved_tokens": 400,
    "reserved_cost_usd": 0.125,
    "unpriced_models": [],
    "unknown_usage_calls": 0,
    "errors": {"rate_limit": 3, "timeout": 1},
    "waits": [],
    "workers": 2,
    "in_flight": 4,
    "waiting": 1,
}
# Whatever else there is to know of a run, this one has nothing of it.
RUNNING = Progress(**{field.name: {} for field in fields(Progress)} | GIVEN)
HOLD = Wait(why="hold", model="m", until=NOW, reason="429", jobs=12)


class FixedPace(Pace):
    def __init__(self, calls_per_s: float = 0.1) -> None:
        super().__init__()
        self.given = calls_per_s

    @property
    def calls_per_s(self) -> float:
        return self.given

    @property
    def tokens_per_minute(self) -> float:
        return 900.4


@pytest.mark.parametrize(
    ("most_cost_usd", "said"), [(0.5, "at most $0.5000"), (None, "cost unknown (no price)")]
)
def test_a_judge_has_its_line_with_its_bound(most_cost_usd: float | None, said: str) -> None:
    bound = {"judge": "j", "judgings": 10, "calls": 20, "most_tokens": 9, "most_cost_usd": most_cost_usd}
    seen = replace(RUNNING, judgings={"j": {"ok": 3, "pending": 7}}, judging_bounds=[bound])
    assert describe(seen)[1] == f"judge j: 3 ok, 7 pending (20 calls planned, {said})"


@pytest.mark.parametrize(
    ("changes", "pace", "lines"),
    [
        (
            {},
            # 12 + 3 + 5 open jobs at 0.1 a second: 200 s.
            FixedPace(),
            [
                "trials: 2 ok, 1 failed, 1 running, 5 pending",
                "calls: 24 done, 20 to come (4 in flight and 1 waiting for capacity)",
                "pace: 0.1 calls/s, 900 tokens a minute, about 3 min for the calls to come",
                "tokens: 1,234 in, 567 out; cost $0.2500",
                "errors: 3 rate_limit, 1 timeout",
            ],
        ),
        (
            {
                "errors": {},
                "jobs": {},
                "limits": {"requests_per_minute": 60, "tokens_per_minute": 9_000},
                "budget": {"run_tokens": 50_000, "run_cost_usd": 2.5},
            },
            FixedPace(),
            [
                "trials: 2 ok, 1 failed, 1 running, 5 pending",
                "calls: 24 done, 0 to come (0 in flight)",
                # 0.1 a second are 6 a minute.
                "pace: 0.1 calls/s (6 of 60 a minute), 900 of 9,000 tokens a minute",
                "tokens: 1,234 in, 567 out; cost $0.2500",
                # 1,234 + 567 tokens
                "budget: $0.2500 spent and $0.1250 reserved of $2.50, 1,801 tokens used and 400 reserved of 50,000",
            ],
        ),
        (
            {"state": "paused", "errors": {}, "reason": "The key\x1b[2J was refused."},
            None,
            [
                "trials: 2 ok, 1 failed, 1 running, 5 pending",
                "calls: 24 done",
                "tokens: 1,234 in, 567 out; cost $0.2500",
                "paused: The key\\u001b[2J was refused.",
            ],
        ),
        (
            {"workers": 0, "errors": {}},
            None,
            [
                "trials: 2 ok, 1 failed, 1 running, 5 pending",
                "calls: 24 done, 20 to come; no worker is there (yet)",
                "tokens: 1,234 in, 567 out; cost $0.2500",
            ],
        ),
        (
            {"state": "finished", "errors": {}, "unpriced_models": ["m"], "cost_usd": 0.0, "waits": [HOLD]},
            FixedPace(),
            [
                "trials: 2 ok, 1 failed, 1 running, 5 pending",
                "calls: 24 done",
                "tokens: 1,234 in, 567 out; cost unknown for m (no price)",
            ],
        ),
    ],
    ids=["running", "limits and budget", "paused", "no worker", "finished"],
)
def test_a_run_in_words(changes: dict[str, Any], pace: Pace | None, lines: list[str]) -> None:
    assert describe(replace(RUNNING, **changes), pace) == lines


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"unknown_calls": 0, "unknown_usage_calls": 2},
            "1,234 in, 567 out; cost $0.2500; calls of unknown usage: 2 answered",
        ),
        (
            {"unknown_usage_calls": 2},
            "1,234 in, 567 out; cost $0.2500; calls of unknown usage: 2 answered and 1 with an unknown outcome",
        ),
        # No call has told anything: 0 would be a number that nobody knows.
        (
            {"unknown_usage_calls": 20, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0},
            "unknown; cost unknown; calls of unknown usage: 20 answered and 1 with an unknown outcome",
        ),
        # Calls that failed have used nothing.
        (
            {"ok_calls": 0, "unknown_calls": 0, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0},
            "0 in, 0 out; cost $0.0000",
        ),
    ],
)
def test_unknown_usage_is_said_and_is_not_0(changes: dict[str, Any], said: str) -> None:
    budget = {"run_tokens": 50_000, "run_cost_usd": 2.5}
    lines = describe(replace(RUNNING, budget=budget, **{"unknown_calls": 1} | changes), FixedPace())
    assert f"tokens: {said}" in lines
    # What is reserved holds the bounds of these calls.
    unknown = (
        "budget: unknown spent and $0.1250 reserved of $2.50, unknown tokens used and 400 reserved of 50,000"
    )
    assert (unknown in lines) == said.startswith("unknown")
    assert any("tokens a minute" in line for line in lines) != said.startswith("unknown")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "the gateway asked all to wait until {} (429)"),
        ({"why": "retry", "reason": "timeout"}, "waiting for a retry until {} (timeout)"),
        (
            {"why": "capacity", "reason": None},
            "waiting for capacity, or for a worker that has the key, until {}",
        ),
    ],
    ids=["hold", "retry", "capacity"],
)
def test_what_waits_is_said_with_its_time_and_reason(changes: dict[str, Any], said: str) -> None:
    last = describe(replace(RUNNING, waits=[replace(HOLD, **changes)]))[-1]
    assert last == "12 calls of m: " + said.format(f"{NOW.astimezone():%Y-%m-%d %H:%M:%S}")


def test_a_run_that_goes_on_no_more_says_which_calls_it_waits_for() -> None:
    paused = replace(RUNNING, state="paused", awaited=3)
    assert describe(paused)[1] == "calls: 24 done, 3 still in flight"


def test_a_run_that_stands_still_says_so() -> None:
    assert describe(RUNNING, FixedPace(0.0))[2] == "pace: 0.0 calls/s, 900 tokens a minute"


def test_no_pace_before_the_first_answer() -> None:
    pace = Pace()
    pace.add(calls=0, tokens=0)
    pace.add(calls=1, tokens=15)
    assert (pace.calls_per_s, pace.tokens_per_minute) == (None, None)
