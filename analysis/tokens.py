"""What trials and strategies used: tokens and USD, first tries apart from reruns and waste.

Per trial, of the calls that generate (judges that only score belong to nobody):

- *first*: calls whose answer was used, in the first try;
- *rerun*: the same in later tries;
- *waste*: calls that were paid and not used (errors with usage, duplicates).

The total is first + rerun; what repeating cost is rerun + waste. Where a used call does not say its tokens,
the trial's tokens are unknown (null, never 0) and it is left out of averages. Averages go over a task's
repeats first, then over tasks.

Waste is what was told. Calls that may have been paid and told nothing are beside it as `silent_calls`: a trial is not
left out for them, since these are the very trials that repeat, and without them repeating would look cheaper yet.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from analysis.arrays import Floats
from analysis.frames import TRIAL_KEY

_USED = pl.col("used") & (pl.col("status") == "ok")
_FIRST = _USED & (pl.col("try") == 1)
_RERUN = _USED & (pl.col("try") > 1)
_WASTE = ~_USED
# Paid or perhaps paid, and nobody says how much: what `audit_calls` calls `unknown_usage`, and calls in flight.
_SILENT = (
    _WASTE
    & pl.col("total_tokens").is_null()
    & (
        pl.col("status").is_in(["ok", "unknown", "started"])
        | ((pl.col("status") == "error") & pl.col("http_status").is_between(200, 299))
    )
)


def trial_usage(outcomes: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The outcomes with what each trial used.

    Adds `answered`, `input_tokens`, `output_tokens`, `first_tokens`, `rerun_tokens`, `waste_tokens`,
    `total_tokens`, `retry_tokens`, `cost_usd`, `waste_usd`, `ok_calls` and `silent_calls` (calls that may
    have been paid but never said what they used). A trial without any call has unknown tokens.
    """
    sums = (
        calls.filter(pl.col("kind") == "generation")
        .group_by(TRIAL_KEY)
        .agg(
            input_tokens=_known_sum("input_tokens", _USED),
            output_tokens=_known_sum("output_tokens", _USED),
            first_tokens=_known_sum("total_tokens", _FIRST),
            rerun_tokens=_known_sum("total_tokens", _RERUN),
            waste_tokens=pl.col("total_tokens").filter(_WASTE).sum(),
            cost_usd=_known_sum("cost_usd", _USED),
            waste_usd=pl.col("cost_usd").filter(_WASTE).sum(),
            ok_calls=(pl.col("status") == "ok").sum().cast(pl.Int64),
            silent_calls=_SILENT.sum().cast(pl.Int64),
        )
    )
    # A trial has an answer where it is ok or was judged; anything else is an outage of the infrastructure.
    answered = (pl.col("status") == "ok") | pl.col("confirmed_success").is_not_null()
    return outcomes.join(sums, on=TRIAL_KEY, how="left").with_columns(
        pl.col("ok_calls", "silent_calls").fill_null(0),
        answered=answered.fill_null(value=False),
        total_tokens=pl.col("first_tokens") + pl.col("rerun_tokens"),
        retry_tokens=pl.col("rerun_tokens") + pl.col("waste_tokens"),
    )


def strategy_tokens(trials: pl.DataFrame, strategies: Sequence[str]) -> pl.DataFrame:
    """The `strategy_tokens` table, one row per strategy in the given order.

    Args:
        trials: as `trial_usage` gives it.
        strategies: all names; one without trials gets zeros and nulls.
    """
    counts = trials.group_by("strategy").agg(
        trials=pl.len().cast(pl.Int64),
        ok_trials=pl.col("answered").sum().cast(pl.Int64),
        ok_calls=pl.col("ok_calls").sum(),
        unknown_usage=(pl.col("answered") & pl.col("total_tokens").is_null()).sum().cast(pl.Int64),
    )
    averages = (
        _task_means(trials)
        .group_by("strategy")
        .agg(
            _weighted("input_tokens", "avg_input_tokens"),
            _weighted("output_tokens", "avg_output_tokens"),
            _weighted("first_tokens", "avg_first_tokens"),
            _weighted("total_tokens", "avg_total_tokens"),
            pl.col("total_tokens").median().alias("median_total_tokens"),
            _weighted("retry_tokens", "avg_retry_tokens"),
            _weighted("cost_usd", "avg_cost_usd"),
        )
    )
    names = pl.DataFrame({"strategy": list(strategies)}, schema={"strategy": pl.String})
    joined = names.join(counts, on="strategy", how="left").join(averages, on="strategy", how="left")
    return joined.with_columns(
        pl.col("trials", "ok_trials", "ok_calls", "unknown_usage").fill_null(0)
    ).select(
        "strategy",
        "trials",
        "ok_trials",
        "ok_calls",
        "avg_input_tokens",
        "avg_output_tokens",
        "avg_first_tokens",
        "avg_total_tokens",
        "median_total_tokens",
        "avg_retry_tokens",
        "avg_cost_usd",
        "unknown_usage",
    )


def success_rates(trials: pl.DataFrame, strategies: Sequence[str]) -> pl.DataFrame:
    """`strategy, success_rate, success_rate_of_all`, each averaged over repeats, then over tasks.

    The first is of the judged trials; the second counts every other trial as a failure.
    """
    of_all = trials.with_columns(
        confirmed_success=pl.col("confirmed_success").fill_null(value=False), answered=True
    )
    names = pl.DataFrame({"strategy": list(strategies)}, schema={"strategy": pl.String})
    judged = _task_means(trials).group_by("strategy").agg(_weighted("confirmed_success", "success_rate"))
    every = (
        _task_means(of_all).group_by("strategy").agg(_weighted("confirmed_success", "success_rate_of_all"))
    )
    joined = names.join(judged, on="strategy", how="left").join(every, on="strategy", how="left")
    # Without a single verdict there is nothing to count as a failure either.
    return joined.with_columns(pl.when(pl.col("success_rate").is_not_null()).then("success_rate_of_all"))


def task_matrix(trials: pl.DataFrame, value: str, tasks: Sequence[str], strategies: Sequence[str]) -> Floats:
    """(T, S) mean of `value` over the answered repeats of each task and strategy; NaN where there is none."""
    text = {"task_id": pl.String, "strategy": pl.String}
    rows = pl.DataFrame({"task_id": list(tasks)}, schema_overrides=text).with_row_index("row")
    columns = pl.DataFrame({"strategy": list(strategies)}, schema_overrides=text).with_row_index("column")
    means = (
        _task_means(trials)
        .filter(pl.col(value).is_not_null())
        .join(rows, on="task_id")
        .join(columns, on="strategy")
    )
    matrix = np.full((len(tasks), len(strategies)), np.nan)
    matrix[means["row"].to_numpy(), means["column"].to_numpy()] = means[value].cast(pl.Float64).to_numpy()
    return matrix


_AVERAGED = (
    "input_tokens",
    "output_tokens",
    "first_tokens",
    "total_tokens",
    "retry_tokens",
    "cost_usd",
    "waste_usd",
    "confirmed_success",
)


def _task_means(trials: pl.DataFrame) -> pl.DataFrame:
    """One row per task and strategy: means over the answered repeats, unknown ones left out."""
    return (
        trials.filter(pl.col("answered"))
        .group_by("strategy", "task_id")
        .agg(pl.col("task_weight").first(), *(pl.col(name).mean() for name in _AVERAGED))
        .sort("strategy", "task_id")
    )


def _known_sum(column: str, rows: pl.Expr) -> pl.Expr:
    """Sum over the rows, null where one of them is unknown, 0 where there are none."""
    chosen = pl.col(column).filter(rows)
    return pl.when(chosen.null_count() == 0).then(chosen.sum())


def _weighted(column: str, name: str) -> pl.Expr:
    """Mean over tasks with their weights, over the tasks where the value is known; null without any."""
    weight = pl.col("task_weight").filter(pl.col(column).is_not_null())
    total = (pl.col(column) * pl.col("task_weight")).sum()
    return pl.when(weight.len() > 0).then(total / weight.sum()).alias(name)
