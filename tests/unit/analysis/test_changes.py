"""What changed between two runs: paired by task, with figures small enough to check by hand."""

import math
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from analysis.changes import Changes, changes, usage
from analysis.errors import FrameError
from analysis.options import Options

OPTIONS = Options(bootstrap=200)


def run(rows: Sequence[tuple[str, str, bool | None, int | None, float | None]]) -> pl.DataFrame:
    """Trials from (task_id, strategy, confirmed_success, total_tokens, cost_usd), one call each."""
    names = ("task_id", "strategy", "confirmed_success", "total_tokens", "cost_usd")
    types = (pl.String, pl.String, pl.Boolean, pl.Int64, pl.Float64)
    frame = pl.DataFrame(rows, schema=dict(zip(names, types, strict=True)), orient="row")
    return usage(frame.drop("total_tokens", "cost_usd"), frame.drop("confirmed_success"))


def found(changed: Changes, strategy: str, figure: str) -> dict[str, Any]:
    row = changed.table.filter(pl.col("strategy") == strategy, pl.col("figure") == figure)
    return row.row(0, named=True)


def test_a_mean_is_compared_on_the_same_tasks() -> None:
    before = run(
        [(t, "a", True, tokens, None) for t, tokens in zip("tuvw", (100, 200, 300, 900), strict=True)]
    )
    after = run([(t, "a", True, tokens, None) for t, tokens in zip("tuvx", (110, 230, 350, 5), strict=True)])
    changed = changes(before, after, OPTIONS)
    assert (changed.tasks, changed.only_a, changed.only_b) == (3, 1, 1)
    row = found(changed, "a", "total_tokens")
    # Differences 10, 30, 50: mean 30, standard deviation 20, standard error 20/√3; t(2 degrees, 95 %) = 4.3027.
    assert (row["run_a"], row["run_b"], row["change"], row["tasks"]) == pytest.approx((200, 230, 30, 3))
    assert row["high"] - 30 == pytest.approx(4.302653 * 20 / math.sqrt(3), rel=1e-5)
    assert row["significant"] is False
    assert found(changed, "a", "cost_usd")["change"] is None


@pytest.mark.parametrize(
    ("tokens", "significant"),
    [((10, 10, 10), True), ((0, 0, 0), False), ((9, 10, 11), True), ((-5, 0, 5), False)],
)
def test_what_is_significant(tokens: tuple[int, ...], significant: bool) -> None:
    before = run([(t, "a", True, 100, 0.1) for t in "tuv"])
    after = run([(t, "a", True, 100 + n, 0.1) for t, n in zip("tuv", tokens, strict=True)])
    assert found(changes(before, after, OPTIONS), "a", "total_tokens")["significant"] is significant


def test_elo_of_both_runs_is_on_one_scale() -> None:
    tasks = [f"t{n}" for n in range(40)]
    before = run([(t, "a", n % 4 == 0, 100, 0.1) for n, t in enumerate(tasks)])
    after = run([(t, "a", n % 4 != 3, 100, 0.1) for n, t in enumerate(tasks)])
    row = found(changes(before, after, OPTIONS), "a", "elo")
    # Of 40 tasks B wins 20 and ties 20: share 0.75, odds 3:1, 400·log10(3) = 190.8 Elo; the penalty takes a little.
    assert row["change"] == pytest.approx(190.8, abs=2)
    assert row["run_a"] + row["run_b"] == pytest.approx(2000)
    assert (row["significant"], row["open"]) == (True, False)


def test_elo_is_compared_on_tasks_that_both_runs_checked() -> None:
    """Run B repeats what A did on three tasks, and has checked nothing of the three on which b loses to a."""
    tasks = [f"t{n}" for n in range(6)]
    before = run([(t, s, s == "a" or n < 3, 100, 0.1) for n, t in enumerate(tasks) for s in "ab"])
    after = run([(t, s, True if n < 3 else None, 100, 0.1) for n, t in enumerate(tasks) for s in "ab"])
    changed = changes(before, after, OPTIONS)
    for strategy in "ab":
        row = found(changed, strategy, "elo")
        assert (row["change"], row["tasks"]) == (pytest.approx(0, abs=1e-6), 3)
    # b has no task in common at all then: nothing is said of it.
    after = run(
        [(t, s, True if s == "a" and n < 3 else None, 100, 0.1) for n, t in enumerate(tasks) for s in "ab"]
    )
    table = changes(before, after, OPTIONS).table.filter(pl.col("figure") == "elo")
    assert table["strategy"].to_list() == ["a"]
    after = run([(t, s, n >= 3 or None, 100, 0.1) for n, t in enumerate(tasks) for s in "ab"])
    only = run([(t, s, n < 3 or None, 100, 0.1) for n, t in enumerate(tasks) for s in "ab"])
    assert changes(only, after, OPTIONS).no_elo == "no strategy has a task that was checked in both runs."


# B beats A on 9 of 10 tasks and ties on 1: share 0.95, odds 19:1, 511.5 Elo.
# Without the tie A never won anything: no finite odds.
@pytest.mark.parametrize(("ties", "is_open"), [(1, False), (0, True)])
def test_a_change_of_elo_without_a_finite_size_is_open(ties: int, is_open: bool) -> None:
    before = run([(f"t{n}", "a", n < ties, 100, 0.1) for n in range(10)])
    after = run([(f"t{n}", "a", True, 100, 0.1) for n in range(10)])
    row = found(changes(before, after, OPTIONS), "a", "elo")
    assert row["open"] is is_open
    assert (row["low"] is None, row["high"] is None, row["significant"] is None) == (is_open,) * 3
    if not is_open:
        assert row["change"] == pytest.approx(400 * math.log10(19), rel=0.1)


def test_nearer_the_frontier() -> None:
    """cheap: 10 of 40 at 1 USD; dear: 20 of 40 at 2 USD, in run B 30 of 40 at 0.5 USD, which beats both."""
    tasks = [f"t{n}" for n in range(40)]

    def both(dear: tuple[int, float]) -> pl.DataFrame:
        rows = [(t, "cheap", n < 10, 100, 1.0) for n, t in enumerate(tasks)]
        return run(rows + [(t, "dear", n < dear[0], 200, dear[1]) for n, t in enumerate(tasks)])

    changed = changes(both((20, 2.0)), both((30, 0.5)), OPTIONS)
    dear, cheap = (found(changed, name, "short_of_frontier") for name in ("dear", "cheap"))
    # At 2 USD 30 of 40 can be had: 10 of 40 are lacking in A, none in B.
    assert (dear["run_a"], dear["run_b"], dear["significant"]) == (0.25, 0, True)
    # Cheap stays where it is, in the shadow of the same point.
    assert (cheap["run_a"], cheap["run_b"], cheap["change"]) == (0.5, 0.5, 0)
    assert changed.price == "cost_usd"


@pytest.mark.parametrize(
    ("costs", "tokens", "price", "unknown_cost"),
    [(10, 10, "cost_usd", 0), (1, 10, "total_tokens", 9), (1, 9, None, 9)],
)
def test_the_frontier_needs_a_price_for_every_checked_task(
    costs: int, tokens: int, price: str | None, unknown_cost: int
) -> None:
    """Ten tasks, of which run B knows the first `costs` costs and `tokens` tokens; one is not checked in B."""
    before = run([(f"t{n}", "a", n < 5, 100, 0.1) for n in range(11)])
    after = run(
        [
            (
                f"t{n}",
                "a",
                None if n == 10 else n < 7,
                100 if n < tokens else None,
                0.1 if n < costs else None,
            )
            for n in range(11)
        ]
    )
    changed = changes(before, after, OPTIONS)
    assert (changed.price, changed.unknown_cost) == (price, unknown_cost)
    if price is None:
        assert "of the 10 tasks" in str(changed.no_frontier)
        assert "tokens of 1 are unknown" in str(changed.no_frontier)
        assert "short_of_frontier" not in set(changed.table["figure"])
    else:
        row = found(changed, "a", "short_of_frontier")
        # At the same price 7 of 10 can be had, of which A had 5: the task that B did not check counts in neither.
        assert (row["run_a"], row["run_b"], row["tasks"]) == pytest.approx((0.2, 0, 10))
        assert changed.no_frontier is None


def test_without_checks_there_is_neither_elo_nor_frontier() -> None:
    judged = run([(t, "a", None, 100, None) for t in "tuv"])
    checked = run([(t, "a", True, 100, None) for t in "tuv"])
    changed = changes(judged, checked, OPTIONS)
    assert str(changed.no_elo).startswith(
        "no answer of run A was checked, and only the tasks' own checks compare"
    )
    assert changed.price is None
    assert "no strategy has a task that was checked in both runs" in str(changed.no_frontier)
    assert set(changed.table["figure"]) == {"success_rate", "total_tokens", "cost_usd"}
    assert "run A and B" in str(changes(judged, judged, OPTIONS).no_elo)


def test_strategies_of_one_run_alone_are_named() -> None:
    before = run([("t", name, True, 1, 1.0) for name in "ab"])
    after = run([("t", name, True, 1, 1.0) for name in "bc"])
    changed = changes(before, after, OPTIONS)
    assert (changed.strategies_only_a, changed.strategies_only_b) == (("a",), ("c",))
    assert set(changed.table["strategy"]) == {"b"}


@pytest.mark.parametrize(("task", "strategy", "what"), [("u", "a", "task"), ("t", "b", "strategy")])
def test_nothing_in_common(task: str, strategy: str, what: str) -> None:
    with pytest.raises(FrameError, match=f"no {what} in common"):
        changes(run([("t", "a", True, 1, 1.0)]), run([(task, strategy, True, 1, 1.0)]), OPTIONS)
