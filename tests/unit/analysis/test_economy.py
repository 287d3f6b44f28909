"""Frontier, buckets, cost tables, net benefit."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from analysis.buckets import token_buckets
from analysis.costs import cost_split, cost_summary
from analysis.decision_tables import net_benefit_table
from analysis.errors import OptionError
from analysis.frames import outcomes_frame
from analysis.options import Options
from analysis.pareto import on_frontier, on_hull, p_on_frontier
from analysis.tokens import trial_usage

from .conftest import trials
from .test_scaling import placed
from .test_tokens import call, ledger

NAN = float("nan")


@pytest.mark.parametrize(
    ("price", "result", "frontier", "hull"),
    [
        ([1, 2, 3], [1, 2, 3], "abc", "abc"),
        ([1, 2, 3], [1, 3, 3], "ab", "ab"),
        ([1, 1, 2], [1, 1, 2], "abc", "abc"),  # two equal points are both kept
        ([1, 1, 2], [1, 2, 2], "b", "b"),
        ([1, 2, 3], [0, 1, 10], "abc", "ac"),  # b lies below the line from a to c: (0 + 10) / 2 = 5 > 1
        ([NAN, 2, 3], [9, 1, 2], "bc", "bc"),
        ([1, 2, 3], [NAN, 1, 2], "bc", "bc"),
        ([0, 1], [0, 0], "a", "a"),
    ],
)
def test_frontier(price: list[float], result: list[float], frontier: str, hull: str) -> None:
    points = np.array(price, dtype=float), np.array(result, dtype=float)
    assert "".join("abc"[i] for i in np.flatnonzero(on_frontier(*points))) == frontier
    assert "".join("abc"[i] for i in np.flatnonzero(on_hull(*points))) == hull


def test_published_frontier(shared: Callable[[str], pl.DataFrame]) -> None:
    """Of the eight published strategies four are on the frontier of mean cost and accuracy."""
    means = (
        shared("humaneval_published_0409.csv")
        .group_by("strategy", "model")
        .agg(pl.col("total_cost").mean(), pl.col("accuracy").mean())
        .sort("total_cost")
    )
    chosen = means.filter(
        pl.Series(on_frontier(means["total_cost"].to_numpy(), means["accuracy"].to_numpy()))
    )
    assert chosen.select("strategy", "model").rows() == [
        ("simple", "gpt-3.5-turbo-0125"),
        ("simple_boosting", "l3_8b-gpt35-l3_70b-gpt4-0409"),
        ("simple", "gpt-4-turbo-2024-04-09"),
        ("simple_incr_temp", "gpt-4-turbo-0409-5step"),
    ]


def test_p_on_frontier_is_a_share_of_resamples() -> None:
    price = np.array([[1.0, 2.0]] * 4)
    result = np.array([[1, 2], [1, 2], [1, 2], [2, 1]], dtype=float)
    assert p_on_frontier(price, result).tolist() == [1.0, 0.75]


OUTCOMES = outcomes_frame(
    trials(
        [
            ("t", "a", 1, True),
            ("t", "a", 2, False),
            ("u", "a", 1, True),
            ("v", "a", 1, None),
            ("w", "a", 1, None),
        ]
    ).with_columns(
        status=pl.Series(["ok", "ok", "ok", "ok", "failed"]), category=pl.Series(["x", "x", "y", "y", "y"])
    )
)
CALLS = ledger(
    [
        call(2000, cost_usd=0.10),
        call(2001, repeat=2, cost_usd=0.02),
        call(500, repeat=2, status="error", cost_usd=0.01),
        call(12_000, task_id="u", cost_usd=0.08),
        call(1000, task_id="u", round=2, cost_usd=0.02),
        call(300, task_id="u", cost_usd=0.03, **{"try": 2}),
        call(None, task_id="v"),
        call(40, task_id="w"),
        call(70, task_id="t", kind="judge", strategy=None, cost_usd=0.5),
    ]
)


def test_buckets() -> None:
    """2,000 is in 0-2K, 2,001 in 2K-5K, 12,000 + 1,000 + 300 over 10K; v is unknown, w never answered."""
    elo = pl.DataFrame({"strategy": ["a"], "elo": [1010.0]})
    table = token_buckets(trial_usage(OUTCOMES, CALLS), elo, (2000, 5000, 10_000))
    assert table.select("bucket", "trials", "judged", "success_rate", "mean_elo").rows() == [
        ("0-2K", 1, 1, 1.0, 1010),
        ("2K-5K", 1, 1, 0.0, 1010),
        ("5K-10K", 0, 0, None, None),
        ("over 10K", 1, 1, 1.0, 1010),
        ("unknown", 1, 0, None, 1010),
    ]
    for edges in ((5000, 2000), (0,), (-1,)):
        with pytest.raises(OptionError, match="rising whole numbers"):
            token_buckets(trial_usage(OUTCOMES, CALLS), elo, edges)


def test_cost_summary() -> None:
    """Tasks cost t: (0.10 + 0.02)/2 = 0.06, u: 0.13, v: unknown; one is above 0.07."""
    rows = cost_summary(trial_usage(OUTCOMES, CALLS), 0.07).rows(named=True)
    assert [row["strategy"] for row in rows] == ["a", "(all)"]
    row = rows[0]
    assert (row["tasks"], row["trials"], row["confirmed_successes"], row["tasks_above_reference"]) == (
        3,
        4,
        2,
        1,
    )
    assert row["mean_cost_usd"] == pytest.approx((0.06 + 0.13) / 2)
    assert row["median_tokens"] == pytest.approx((2000.5 + 13_300) / 2)
    assert (row["unknown_tokens"], row["unknown_cost"]) == (1, 1)


@pytest.mark.parametrize(
    ("split", "tokens"),
    [
        ("outcome", {"success": 2000 + 13_300, "failure": 2501, "no verdict": 0, "no answer": 40}),
        ("try", {"first": 2000 + 2001 + 13_000 + 40, "rerun": 300, "waste": 500}),
        ("category", {"x": 4501, "y": 13_340}),
        ("use", {"prompt": 16_041, "context": 1000, "output": 0, "retries": 800, "judging": 70}),
    ],
)
def test_cost_split(split: str, tokens: dict[str, int]) -> None:
    table = cost_split(trial_usage(OUTCOMES, CALLS), CALLS).filter(pl.col("split") == split)
    # What a judge used is nobody's: it stands in the row over all alone.
    for strategy, left_out in (("(all)", set()), ("a", {"judging"})):
        own = table.filter(pl.col("strategy") == strategy)
        wanted = {part: count for part, count in tokens.items() if part not in left_out}
        assert dict(own.select("part", "tokens").iter_rows()) == wanted
        assert own["share_of_tokens"].sum() == pytest.approx(1)


def test_net_benefit_names_the_best_at_each_price() -> None:
    """a 900 at 1K, b 1000 at 2K, c 1010 at 4K: b pays below 100 Elo per 1K, c below 5."""
    table = net_benefit_table(placed([1000, 2000, 4000], [900, 1000, 1010]), Options(threshold=3))
    best = dict(table.filter("best").select("threshold", "strategy").iter_rows())
    assert (best[3], best[10], best[0]) == ("c", "b", "c")
    assert table.filter(pl.col("threshold") == 10, pl.col("strategy") == "b")["net_elo"].item() == 100 - 10
