"""Distributions, tails, categories and win shares, on numbers that can be checked by eye."""

import polars as pl
import pytest

from analysis.spreads import categories, cost_distribution, cost_tail, dearest, per_task

COSTS = {"t": 0.001, "u": 0.0011, "v": 0.1, "w": 0.0, "x": None}


def tasks() -> pl.DataFrame:
    trials = pl.DataFrame(
        {
            "task_id": list(COSTS),
            "strategy": ["a"] * 5,
            "category": ["read", "read", "write", None, None],
            "answered": [True] * 5,
            "confirmed_success": [True, False, True, None, True],
            "total_tokens": [10, 20, 30, None, 50],
            "cost_usd": list(COSTS.values()),
        }
    )
    return per_task(trials)


def test_bins_are_fifths_of_a_decade_with_the_upper_edge_inside() -> None:
    rows = cost_distribution(tasks()).rows()
    low, high = 10**-3.2, 10**-2.8
    assert [(f, t, n) for _, f, t, n, _ in rows] == [
        (0, 0, 1),
        (pytest.approx(low), pytest.approx(0.001), 1),
        (pytest.approx(0.001), pytest.approx(high), 1),
        (pytest.approx(10**-1.2), pytest.approx(0.1), 1),
    ]
    assert sum(row[4] for row in rows) == pytest.approx(0.1021)


def test_the_tail_is_rounded_up_to_whole_tasks() -> None:
    tail = cost_tail(tasks())
    # 4 known costs: 1 % is one task, 50 % are two.
    assert tail["tasks"].to_list() == [1, 1, 1, 1, 2]
    assert tail.row(4)[2:] == (0.0011, pytest.approx(0.1011), pytest.approx(0.1011 / 0.1021))


def test_the_dearest_first_and_unknown_costs_left_out() -> None:
    assert dearest(tasks())["task_id"].to_list() == ["v", "u", "t", "w"]
    unpriced = tasks().with_columns(cost_usd=pl.lit(None, dtype=pl.Float64))
    assert dearest(unpriced)["task_id"].to_list() == ["x", "v", "u", "t"]


def test_categories_count_what_is_unknown() -> None:
    rows = {row["category"]: row for row in categories(tasks()).iter_rows(named=True)}
    assert (rows["read"]["success_rate"], rows["read"]["mean_tokens"]) == (0.5, 15)
    assert (rows["(none)"]["tasks"], rows["(none)"]["judged"]) == (2, 1)
    assert (rows["(none)"]["unknown_tokens"], rows["(none)"]["unknown_cost"]) == (1, 1)
    assert rows["(none)"]["mean_cost_usd"] == 0
