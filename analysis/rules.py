"""Ranking by rules: whoever passes the checks is better, and among equals whoever has the higher score."""

import polars as pl


def by_rules(outcomes: pl.DataFrame) -> pl.DataFrame:
    """The outcomes with a `score` that says so, for `comparisons.cells_from_outcomes`; trials with neither a verdict of
    the checks nor a score have none.

    Args:
        outcomes: `task_id`, `confirmed_success` and `score`, see `frames.OUTCOMES`.
    """
    passed = pl.col("confirmed_success").cast(pl.Float64).fill_null(0)
    place = pl.col("score").rank("dense").over("task_id").fill_null(0)
    known = pl.col("confirmed_success").is_not_null() | pl.col("score").is_not_null()
    # The place is below the number of trials, so no score makes up for a failed check.
    return outcomes.with_columns(score=pl.when(known).then(passed + place / (pl.len().over("task_id") + 1)))
