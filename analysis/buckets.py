"""Trials sorted into buckets by their tokens: where more tokens stop helping, the curve over buckets
flattens."""

from collections.abc import Sequence

import polars as pl

from analysis.errors import OptionError

DEFAULT_EDGES = (2_000, 5_000, 10_000)

SCHEMA = {
    "bucket": pl.String,
    "min_tokens": pl.Int64,
    "max_tokens": pl.Int64,
    "trials": pl.Int64,
    "judged": pl.Int64,
    "success_rate": pl.Float64,
    "mean_elo": pl.Float64,
}


def token_buckets(trials: pl.DataFrame, elo: pl.DataFrame, edges: Sequence[int]) -> pl.DataFrame:
    """`token_buckets`, in the order of the tokens; trials with unknown tokens have a row of their own.

    Args:
        trials: as `tokens.trial_usage` gives it; those without an answer are left out.
        elo: the `elo_table`; `mean_elo` averages the Elo of the trials' strategies over the trials.
        edges: where one bucket ends and the next begins; a trial at an edge is in the lower bucket.

    Raises:
        OptionError: the edges do not rise.
    """
    if any(not 0 < low < high for low, high in zip([0.5, *edges], edges, strict=False)):
        raise OptionError(
            f"buckets are {','.join(map(str, edges))}; they must be rising whole numbers above 0."
        )
    answered = trials.filter(pl.col("answered")).join(
        elo.select("strategy", "elo"), on="strategy", how="left"
    )
    number = sum((pl.col("total_tokens") > edge).cast(pl.Int64) for edge in edges)
    filled = (
        answered.with_columns(number=number if edges else 0 * pl.col("total_tokens"))
        .group_by("number")
        .agg(
            trials=pl.len(),
            judged=pl.col("confirmed_success").count(),
            success_rate=pl.col("confirmed_success").mean(),
            mean_elo=pl.col("elo").mean(),
        )
    )
    rows = pl.DataFrame(
        _names(edges), schema={"number": pl.Int64} | dict(list(SCHEMA.items())[:3]), orient="row"
    )
    joined = rows.join(filled, on="number", how="left", nulls_equal=True, maintain_order="left")
    counted = joined.with_columns(pl.col("trials", "judged").fill_null(0))
    return counted.filter(pl.col("number").is_not_null() | (pl.col("trials") > 0)).select(
        pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()
    )


def _names(edges: Sequence[int]) -> list[tuple[int | None, str, int | None, int | None]]:
    starts, ends = [0, *edges], [*edges, None]
    named: list[tuple[int | None, str, int | None, int | None]] = []
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        name = f"over {_short(start)}" if end is None else f"{_short(start)}-{_short(end)}"
        named.append((place, name, start + 1 if start else 0, end))
    return [*named, (None, "unknown", None, None)]


def _short(tokens: int) -> str:
    return f"{tokens // 1000}K" if tokens and tokens % 1000 == 0 else str(tokens)
