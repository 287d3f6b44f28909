"""How far a judge can be trusted: what its replies say about each other, whatever the truth is."""

from collections.abc import Mapping

import polars as pl

READINGS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "judge": pl.String,
    "judging": pl.Int64,
    "shown": pl.List(pl.Int64),
    "scores": pl.List(pl.Float64),
    "problem": pl.String,
}
"""One row per call of a judge: the answers as it was shown them, and the score that its reply gives to each (higher is
better), or the problem: `unparsable`, or why there is no reply."""

VERDICTS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "judge": pl.String,
    "task_id": pl.String,
    "winner": pl.String,
    "loser": pl.String,
    "tie": pl.Boolean,
    "weight": pl.Float64,
    "items": pl.Float64,
}
"""One row per verdict, as `comparisons.cells_from_comparisons` takes them."""

QUALITY = {
    "judge": pl.String,
    "judgings": pl.Int64,
    "calls": pl.Int64,
    "verdicts": pl.Int64,
    "ties": pl.Int64,
    "unparsable": pl.Int64,
    "failed": pl.Int64,
    "position_bias": pl.Float64,
    "agreement": pl.Float64,
}


def judge_quality(readings: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """The `judges` table, one row per judge.

    - `position_bias`: of two answers shown together, the share where the one shown first is preferred minus the share
      where the other one is; 0 for a judge who does not care for places, 1 for one who always takes the first. Only
      pairs that are no ties; null without any.
    - `agreement`: share of pairs of readings of the same two answers in the same judging that say the same; null where
      nothing was read twice.

    Args:
        readings: see `READINGS`.
        verdicts: see `VERDICTS`.
    """
    calls = readings.group_by("judge", maintain_order=True).agg(
        judgings=pl.col("judging").n_unique(),
        calls=pl.len(),
        unparsable=(pl.col("problem") == "unparsable").sum(),
        failed=(pl.col("problem").is_not_null() & (pl.col("problem") != "unparsable")).sum(),
    )
    said = verdicts.group_by("judge").agg(verdicts=pl.len(), ties=pl.col("tie").sum())
    pairs = _pairs(readings)
    table = calls
    for other in (said, _position_bias(pairs), _agreement(pairs)):
        table = table.join(other, on="judge", how="left", maintain_order="left")
    return table.with_columns(pl.col("verdicts", "ties").fill_null(0)).select(
        pl.col(name).cast(dtype) for name, dtype in QUALITY.items()
    )


def _pairs(readings: pl.DataFrame) -> pl.DataFrame:
    """Every two answers that a reply compares: `earlier` is +1 where the one shown first is preferred, -1 where the
    other one is, 0 for a tie; `lower` is the same for the one with the lower id."""
    shown = (
        readings.filter(pl.col("scores").is_not_null())
        .select("judge", "judging", "shown", "scores")
        .with_row_index("reading")
        .explode("shown", "scores")
        .with_columns(place=pl.int_range(pl.len()).over("reading"))
    )
    both = shown.join(shown.drop("judge", "judging"), on="reading", suffix="_later").filter(
        pl.col("place") < pl.col("place_later")
    )
    earlier = (pl.col("scores") - pl.col("scores_later")).sign()
    return both.select(
        "judge",
        "judging",
        one=pl.min_horizontal("shown", "shown_later"),
        other=pl.max_horizontal("shown", "shown_later"),
        earlier=earlier,
        lower=pl.when(pl.col("shown") < pl.col("shown_later")).then(earlier).otherwise(-earlier),
    )


def _position_bias(pairs: pl.DataFrame) -> pl.DataFrame:
    decided = pairs.filter(pl.col("earlier") != 0)
    return decided.group_by("judge").agg(position_bias=pl.col("earlier").mean())


def _agreement(pairs: pl.DataFrame) -> pl.DataFrame:
    """Of n readings that say the same in groups of n_i, Σ n_i(n_i - 1) of n(n - 1) pairs agree."""
    same = pairs.group_by("judge", "judging", "one", "other", "lower").agg(n=pl.len().cast(pl.Int64))
    each = same.group_by("judge", "judging", "one", "other").agg(
        agree=(pl.col("n") * (pl.col("n") - 1)).sum(), all=pl.col("n").sum() * (pl.col("n").sum() - 1)
    )
    twice = each.filter(pl.col("all") > 0)
    return twice.group_by("judge").agg(agreement=pl.col("agree").sum() / pl.col("all").sum())
