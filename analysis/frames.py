"""The tables that the analysis takes: their columns, types and what an absent column means.

Three polars frames, one row per trial, per HTTP attempt and per strategy. `outcomes_frame`, `calls_frame` and
`strategies_frame` check them: required columns, types, keys that repeat. Optional columns that are absent are
filled with their default; columns that nobody asked for are dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from analysis.errors import FrameError


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a frame."""

    dtype: pl.DataType | type[pl.DataType]
    default: Any = None
    """Value of every row where the column is absent, and of its nulls where it is not None."""
    required: bool = False
    """An absent column, or a null in it, is an error."""


_TEXT = Column(dtype=pl.String)
_COUNT = Column(dtype=pl.Int64)
_NUMBER = Column(dtype=pl.Float64)

OUTCOMES: Mapping[str, Column] = {
    "task_id": Column(dtype=pl.String, required=True),
    "strategy": Column(dtype=pl.String, required=True),
    "repeat": Column(dtype=pl.Int64, default=1),
    "goal": _TEXT,
    "category": _TEXT,
    "difficulty": _TEXT,
    "task_weight": Column(dtype=pl.Float64, default=1.0),
    # ok, failed, over_budget, review, cancelled, pending, running
    "status": Column(dtype=pl.String, default="ok"),
    # null: no verdict (no checks, or the trial never came to an answer); such a trial is missing, not a
    # failure
    "confirmed_success": Column(dtype=pl.Boolean),
    # higher is better; a task whose trials all have one is compared by it instead of by success
    "score": _NUMBER,
    "latency_s": _NUMBER,
    "output": _TEXT,
}
"""One row per trial; `task_id`, `strategy`, `repeat` together are its key."""

CALLS: Mapping[str, Column] = {
    "run_id": _TEXT,
    "source_platform": _TEXT,
    "task_id": Column(dtype=pl.String, required=True),
    # null for the calls of judges alone: they belong to no strategy
    "strategy": _TEXT,
    "repeat": Column(dtype=pl.Int64, default=1),
    "round": Column(dtype=pl.Int64, default=1),
    "sample": Column(dtype=pl.Int64, default=1),
    "attempt": Column(dtype=pl.Int64, default=1),
    "model": _TEXT,
    "input_tokens": _COUNT,
    "output_tokens": _COUNT,
    "total_tokens": _COUNT,
    "latency_ms": _NUMBER,
    "status": Column(dtype=pl.String, default="ok"),
    "error": _TEXT,
    "content": _TEXT,
    "try": Column(dtype=pl.Int64, default=1),
    "turn": Column(dtype=pl.Int64, default=1),
    "kind": Column(dtype=pl.String, default="generation"),
    "purpose": Column(dtype=pl.String, default="first"),
    "retry_reason": _TEXT,
    # null: used where status is ok
    "used": Column(dtype=pl.Boolean),
    "http_status": _COUNT,
    "response_id": _TEXT,
    "first_byte_ms": _NUMBER,
    "finish_reason": _TEXT,
    "cached_input_tokens": _COUNT,
    "reasoning_tokens": _COUNT,
    "usage": _TEXT,
    "cost_usd": _NUMBER,
    "worker": _TEXT,
    "started_at": _TEXT,
    "finished_at": _TEXT,
}
"""One row per HTTP attempt, with the ledger's own names; verdicts are read elsewhere than from its rows."""

STRATEGIES: Mapping[str, Column] = {
    "strategy": Column(dtype=pl.String, required=True),
    "family": _TEXT,
    "tier": _COUNT,
    "position": _COUNT,
}
"""One row per strategy: its family, its tier in the family (1…), and its place in the experiment file."""

TRIAL_KEY = ("task_id", "strategy", "repeat")


def outcomes_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Checked outcomes with every column of `OUTCOMES`, in that order.

    Raises:
        FrameError: a column is missing or has wrong values, a trial stands there twice, a weight is not > 0.
    """
    checked = _conform(frame, OUTCOMES, name="outcomes")
    _refuse_repeats(checked, TRIAL_KEY, name="outcomes")
    if checked.filter(~(pl.col("task_weight") > 0) | pl.col("task_weight").is_infinite()).height:
        raise FrameError("outcomes: every task_weight must be a number above 0.")
    uneven = (
        checked.group_by("task_id").agg(pl.col("task_weight").n_unique()).filter(pl.col("task_weight") > 1)
    )
    if uneven.height:
        raise FrameError(f"outcomes: task {uneven['task_id'].sort()[0]!r} has more than one task_weight.")
    return checked


def calls_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Checked calls with every column of `CALLS`; `used` and `total_tokens` are filled where they follow.

    Raises:
        FrameError: a column is missing or has wrong values, or a count of tokens is negative.
    """
    checked = _conform(frame, CALLS, name="calls")
    strategy, owned = checked["strategy"], checked["kind"] == "generation"
    if "strategy" not in frame.columns or (strategy.is_null() & owned).any():
        needed = {"strategy": Column(dtype=pl.String, required=True)}
        _conform(frame.filter(owned), needed, name="calls")
    for column in ("input_tokens", "output_tokens", "total_tokens", "cost_usd"):
        if checked.filter(pl.col(column) < 0).height:
            raise FrameError(f"calls: {column} is negative in some row; unknown is an empty cell, not -1.")
    return checked.with_columns(
        pl.col("used").fill_null(pl.col("status") == "ok"),
        pl.coalesce("total_tokens", pl.col("input_tokens") + pl.col("output_tokens")),
    )


def strategies_frame(frame: pl.DataFrame | None, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Checked strategies in the order of `position`; without a frame, those of `outcomes` by name.

    Raises:
        FrameError: a strategy stands there twice, or `outcomes` has one that is not listed.
    """
    if frame is None:
        names = outcomes.select(pl.col("strategy").unique().sort())
        frame = names.with_columns(family=pl.col("strategy"), tier=1)
    checked = _conform(frame, STRATEGIES, name="strategies")
    _refuse_repeats(checked, ("strategy",), name="strategies")
    unknown = set(outcomes["strategy"].unique()) - set(checked["strategy"])
    if unknown:
        raise FrameError(
            f"strategies: {min(unknown)!r} has outcomes but is not listed; add it to the strategies."
        )
    numbered = checked.with_row_index("row").with_columns(
        pl.col("family").fill_null(pl.col("strategy")),
        pl.col("position").fill_null(pl.col("row").cast(pl.Int64)),
    )
    return (
        numbered.with_columns(
            pl.col("tier").fill_null(pl.col("position").rank("ordinal").over("family").cast(pl.Int64))
        )
        .sort("position", "row")
        .drop("row")
    )


def _conform(frame: pl.DataFrame, columns: Mapping[str, Column], *, name: str) -> pl.DataFrame:
    missing = [key for key, column in columns.items() if column.required and key not in frame.columns]
    if missing:
        raise FrameError(
            f"{name}: no column {', '.join(missing)} (there are: {', '.join(frame.columns) or 'none'}); "
            "rename it, or name it with --columns."
        )
    return pl.DataFrame([_series(frame, key, column, name=name) for key, column in columns.items()])


def _series(frame: pl.DataFrame, key: str, column: Column, *, name: str) -> pl.Series:
    if key not in frame.columns:
        return pl.Series(key, [column.default], dtype=column.dtype).new_from_index(0, frame.height)
    series = _cast(frame[key], column, name=name)
    if series.dtype == pl.Float64:
        series = series.fill_nan(None)
    if column.required and series.null_count():
        row = series.is_null().arg_true()[0] + 1
        raise FrameError(f"{name}: {key} is empty in row {row}; every row needs one.")
    return series if column.default is None else series.fill_null(column.default)


def _cast(series: pl.Series, column: Column, *, name: str) -> pl.Series:
    if series.dtype == column.dtype:
        return series
    if column.dtype == pl.Boolean and series.dtype == pl.String:
        return truth(series, name=name)
    if column.dtype == pl.String and isinstance(series.dtype, pl.Struct):
        return series.struct.json_encode().alias(series.name)
    try:
        return (
            series.cast(pl.Float64).cast(pl.Boolean)
            if column.dtype == pl.Boolean
            else series.cast(column.dtype)
        )
    except (pl.exceptions.PolarsError, OverflowError) as error:
        raise FrameError(
            f"{name}: {series.name} holds something that is no {column.dtype}: {_line(error)}"
        ) from None


def truth(series: pl.Series, *, name: str) -> pl.Series:
    """Words such as `true`, `no` or `1` as truth values. Raises `FrameError` for any other."""
    words = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False, "": None}
    lowered = series.str.strip_chars().str.to_lowercase()
    wrong = lowered.filter(lowered.is_not_null() & ~lowered.is_in(list(words)))
    if wrong.len():
        raise FrameError(f"{name}: {series.name} holds {wrong[0]!r}; allowed are true and false.")
    return lowered.replace_strict(words, return_dtype=pl.Boolean).alias(series.name)


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0][:160]


def _refuse_repeats(frame: pl.DataFrame, key: tuple[str, ...], *, name: str) -> None:
    repeated = frame.filter(frame.select(pl.struct(key).is_duplicated()).to_series())
    if repeated.height:
        where = ", ".join(f"{part} {repeated[part][0]!r}" for part in key)
        raise FrameError(
            f"{name}: {repeated.height} rows share a key, the first is {where}; keep one row for each."
        )
