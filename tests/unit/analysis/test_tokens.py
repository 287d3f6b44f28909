"""Tokens and USD per trial and strategy, by hand and on a real ledger."""

from collections.abc import Callable

import polars as pl
import pytest

from analysis.frames import calls_frame, outcomes_frame
from analysis.prices import Price, cost_usd
from analysis.tokens import strategy_tokens, success_rates, trial_usage
from analysis.usage import Usage

from .conftest import HUMANEVAL_FIVE, trials


def ledger(rows: list[dict[str, object]]) -> pl.DataFrame:
    base = {
        "task_id": "t",
        "strategy": "a",
        "repeat": 1,
        "attempt": 1,
        "status": "ok",
        "kind": "generation",
        "try": 1,
    }
    schema = {"used": pl.Boolean, "input_tokens": pl.Int64, "output_tokens": pl.Int64, "cost_usd": pl.Float64,
              "http_status": pl.Int64}  # fmt: skip
    empty = dict.fromkeys(schema)
    return calls_frame(pl.DataFrame([base | empty | row for row in rows], schema_overrides=schema))


def call(tokens: int | None, **more: object) -> dict[str, object]:
    return {"input_tokens": tokens, "output_tokens": 0 if tokens is not None else None, **more}


OUTCOME = outcomes_frame(trials([("t", "a", 1, True)]))


@pytest.mark.parametrize(
    ("calls", "first", "rerun", "waste", "silent"),
    [
        ([call(100), call(50)], 100 + 50, 0, 0, 0),
        ([call(100), call(70, status="error")], 100, 0, 70, 0),
        ([call(100), call(100, used=False)], 100, 0, 100, 0),
        ([call(100), call(60, **{"try": 2})], 100, 60, 0, 0),
        ([call(100), call(9, kind="judge")], 100, 0, 0, 0),
        ([call(100), call(None, status="unknown")], 100, 0, 0, 1),
        ([call(100), call(None, status="error")], 100, 0, 0, 0),
        ([call(100), call(None, status="error", http_status=500)], 100, 0, 0, 0),
        ([call(100), call(None, status="error", http_status=200)], 100, 0, 0, 1),
        ([call(100), call(None, used=False), call(7, status="unknown")], 100, 0, 7, 1),
        ([call(100), call(None)], None, 0, 0, 0),
        ([call(100), call(None, **{"try": 2})], 100, None, 0, 0),
    ],
)
def test_trial(calls: list[dict[str, object]], first: int, rerun: int, waste: int, silent: int) -> None:
    row = trial_usage(OUTCOME, ledger(calls)).row(0, named=True)
    assert (row["first_tokens"], row["rerun_tokens"], row["waste_tokens"]) == (first, rerun, waste)
    assert row["silent_calls"] == silent
    total = None if first is None or rerun is None else first + rerun
    assert row["total_tokens"] == total
    assert row["retry_tokens"] == (None if rerun is None else rerun + waste)


def test_average_over_repeats_then_tasks() -> None:
    """Task t: (100 + 300) / 2 = 200, task u: 40; so (200 + 40) / 2 = 120, not 440 / 3."""
    outcomes = outcomes_frame(trials([("t", "a", 1, True), ("t", "a", 2, False), ("u", "a", 1, True)]))
    calls = ledger([call(100), call(300, repeat=2), call(40, task_id="u")])
    row = strategy_tokens(trial_usage(outcomes, calls), ["a", "never run"]).row(0, named=True)
    assert (row["avg_total_tokens"], row["median_total_tokens"]) == (120, 120)
    assert (row["trials"], row["ok_trials"], row["ok_calls"], row["unknown_usage"]) == (3, 3, 3, 0)
    assert row["avg_cost_usd"] is None


def test_unknown_usage_is_left_out_and_counted_and_outages_are_missing() -> None:
    outcomes = outcomes_frame(
        trials([("t", "a", 1, True), ("u", "a", 1, False), ("v", "a", 1, None)]).with_columns(
            status=pl.Series(["ok", "ok", "failed"])
        )
    )
    calls = ledger([call(100), call(None, task_id="u"), call(9000, task_id="v")])
    usage = trial_usage(outcomes, calls)
    table = strategy_tokens(usage, ["a", "never run"])
    row = table.row(0, named=True)
    assert (row["avg_total_tokens"], row["trials"], row["ok_trials"], row["unknown_usage"]) == (100, 3, 2, 1)
    assert table.row(1, named=True) == {
        name: (
            "never run" if name == "strategy" else 0 if name.endswith(("trials", "calls", "usage")) else None
        )
        for name in table.columns
    }
    rates = success_rates(usage, ["a"]).row(0, named=True)
    assert (rates["success_rate"], rates["success_rate_of_all"]) == (1 / 2, 1 / 3)


HUMANEVAL = dict(
    zip(
        HUMANEVAL_FIVE,
        [(0.73902, 349.626), (0.89634, 518.941), (0.93171, 655.207), (0.91951, 671.471), (0.85, 844.396)],
        strict=True,
    )
)


def test_humaneval_tokens_and_success(
    humaneval_outcomes: pl.DataFrame, humaneval_calls: pl.DataFrame
) -> None:
    usage = trial_usage(outcomes_frame(humaneval_outcomes), calls_frame(humaneval_calls))
    tokens = strategy_tokens(usage, HUMANEVAL_FIVE)
    success = success_rates(usage, HUMANEVAL_FIVE)
    found = zip(success["success_rate"].round(5), tokens["avg_total_tokens"].round(3), strict=True)
    assert dict(zip(HUMANEVAL_FIVE, found, strict=True)) == HUMANEVAL


def test_humaneval_costs_are_the_published_ones(shared: Callable[[str], pl.DataFrame]) -> None:
    prices = {
        model: Price(input_usd_per_1m=given, output_usd_per_1m=taken)
        for model, given, taken in shared("humaneval_prices.csv").iter_rows()
    }
    calls = shared("humaneval_calls.csv.gz")
    costs = [
        cost_usd(Usage(input_tokens=given, output_tokens=taken), prices.get(model))
        for model, given, taken in calls.select("model", "prompt_tokens", "completion_tokens").iter_rows()
    ]
    found = (
        calls.with_columns(cost=pl.Series(costs))
        .group_by("strategy", "config", "run")
        .agg(pl.col("cost").sum())
    )
    published = shared("humaneval_published_0409.csv")
    joined = found.join(
        published, left_on=["strategy", "config", "run"], right_on=["strategy", "model", "run"]
    )
    assert joined.height == 25
    assert joined["cost"].to_list() == pytest.approx(joined["total_cost"].to_list(), abs=1e-9)
