"""What a task costs, and where tokens and money go."""

import polars as pl

from analysis.frames import TRIAL_KEY

SUMMARY_SCHEMA = {
    "strategy": pl.String,
    "tasks": pl.Int64,
    "trials": pl.Int64,
    "confirmed_successes": pl.Int64,
    "mean_tokens": pl.Float64,
    "median_tokens": pl.Float64,
    "mean_cost_usd": pl.Float64,
    "median_cost_usd": pl.Float64,
    "reference_cost_usd": pl.Float64,
    "tasks_above_reference": pl.Int64,
    "unknown_tokens": pl.Int64,
    "unknown_cost": pl.Int64,
}

ALL = "(all)"
"""The name of the row over all strategies."""


def cost_summary(trials: pl.DataFrame, reference_cost_usd: float) -> pl.DataFrame:
    """`cost_summary`, one row per strategy and one over all.

    Args:
        trials: as `tokens.trial_usage` gives it; trials without an answer are left out.
        reference_cost_usd: what the user compares a task's cost with.

    A task's cost is the mean over its repeats; in the row over all, each strategy's try at a task is a task
    of its own, and `tasks` counts these.
    """
    answered = trials.filter(pl.col("answered"))
    per_task = answered.group_by("strategy", "task_id").agg(
        trials=pl.len(),
        confirmed_successes=pl.col("confirmed_success").sum(),
        tokens=pl.col("total_tokens").mean(),
        cost_usd=pl.col("cost_usd").mean(),
        unknown_tokens=pl.col("total_tokens").null_count(),
        unknown_cost=pl.col("cost_usd").null_count(),
    )
    both = pl.concat([per_task, per_task.with_columns(strategy=pl.lit(ALL))])
    above = (pl.col("cost_usd") > reference_cost_usd).sum()
    table = both.group_by("strategy").agg(
        tasks=pl.len(),
        trials=pl.col("trials").sum(),
        confirmed_successes=pl.col("confirmed_successes").sum(),
        mean_tokens=pl.col("tokens").mean(),
        median_tokens=pl.col("tokens").median(),
        mean_cost_usd=pl.col("cost_usd").mean(),
        median_cost_usd=pl.col("cost_usd").median(),
        reference_cost_usd=pl.lit(reference_cost_usd),
        tasks_above_reference=pl.when(pl.col("cost_usd").count() > 0).then(above),
        unknown_tokens=pl.col("unknown_tokens").sum(),
        unknown_cost=pl.col("unknown_cost").sum(),
    )
    last = pl.col("strategy") == ALL
    return table.sort(last, "strategy").select(
        pl.col(name).cast(dtype) for name, dtype in SUMMARY_SCHEMA.items()
    )


SPLIT_SCHEMA = {
    "strategy": pl.String,
    "split": pl.String,
    "part": pl.String,
    "calls": pl.Int64,
    "tokens": pl.Int64,
    "cost_usd": pl.Float64,
    "share_of_tokens": pl.Float64,
    "share_of_cost": pl.Float64,
    "unknown_calls": pl.Int64,
}


def cost_split(trials: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """`cost_split`: the tokens and USD of all paid calls, divided in several ways.

    - `outcome`: calls of trials with `success`, `failure`, `no verdict`, `no answer`;
    - `try`: `first`, `rerun`, `waste` (paid, not used);
    - `category`: the tasks' categories;
    - `use`: `prompt` (input of a first round), `context` (input of later rounds, which carries along what
      came before), `output`, `retries` (rerun and waste), `judging` (calls that only score: they are
      nobody's, so over all alone, and in no other split); tokens only, since a call has one price for both directions.

    Sums are over calls whose tokens or cost are known; `unknown_calls` counts the calls without known tokens
    among those that may have been paid.
    """
    marked = _marked(trials, calls)
    generated = marked.filter(pl.col("kind") == "generation")
    parts = [_split(generated, name, pl.col(name)) for name in ("outcome", "try", "category")]
    parts.append(_split(_by_use(marked), "use", pl.col("use")))
    return pl.concat(parts).select(pl.col(name).cast(dtype) for name, dtype in SPLIT_SCHEMA.items())


def _marked(trials: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    outcome = (
        pl.when(~pl.col("answered"))
        .then(pl.lit("no answer"))
        .when(pl.col("confirmed_success").is_null())
        .then(pl.lit("no verdict"))
        .when("confirmed_success")
        .then(pl.lit("success"))
        .otherwise(pl.lit("failure"))
    )
    known = trials.select(*TRIAL_KEY, pl.col("category").fill_null("(none)"), outcome=outcome)
    counted = pl.col("used") & (pl.col("status") == "ok")
    part = pl.when(~counted).then(pl.lit("waste")).when(pl.col("try") > 1).then(pl.lit("rerun"))
    paid = calls.filter(
        pl.col("total_tokens").is_not_null() | pl.col("status").is_in(["ok", "unknown", "started"])
    )
    # The calls of judges belong to no trial.
    owned = pl.col("outcome").is_not_null() | (pl.col("kind") != "generation")
    return (
        paid.join(known, on=TRIAL_KEY, how="left")
        .filter(owned)
        .with_columns(
            part.otherwise(pl.lit("first")).alias("try"), later=(pl.col("round") > 1) | (pl.col("turn") > 1)
        )
    )


def _by_use(marked: pl.DataFrame) -> pl.DataFrame:
    """Each call of a first try as two rows, its input and its output; every other call as one."""
    whole = marked.with_columns(
        use=pl.when(pl.col("kind") != "generation")
        .then(pl.lit("judging"))
        .when(pl.col("try") != "first")
        .then(pl.lit("retries"))
    )
    whole = whole.with_columns(cost_usd=pl.lit(None, dtype=pl.Float64))
    first = whole.filter(pl.col("use").is_null())
    source = pl.when("later").then(pl.lit("context")).otherwise(pl.lit("prompt"))
    given = first.with_columns(use=source, total_tokens=pl.col("input_tokens"))
    made = first.with_columns(use=pl.lit("output"), total_tokens=pl.col("output_tokens"))
    return pl.concat([whole.filter(pl.col("use").is_not_null()), given, made])


def _split(calls: pl.DataFrame, name: str, key: pl.Expr) -> pl.DataFrame:
    owned = calls.filter(pl.col("strategy").is_not_null())
    both = pl.concat([owned, calls.with_columns(strategy=pl.lit(ALL))])
    sums = both.group_by("strategy", part=key).agg(
        calls=pl.len(),
        tokens=pl.col("total_tokens").sum(),
        cost_usd=pl.when(pl.col("cost_usd").count() > 0).then(pl.col("cost_usd").sum()),
        unknown_calls=pl.col("total_tokens").null_count(),
    )
    share = {
        "share_of_tokens": pl.col("tokens") / pl.col("tokens").sum().over("strategy"),
        "share_of_cost": pl.col("cost_usd") / pl.col("cost_usd").sum().over("strategy"),
    }
    last = pl.col("strategy") == ALL
    return (
        sums.with_columns(split=pl.lit(name), **{k: v.fill_nan(None) for k, v in share.items()})
        .sort(last, "strategy", "part")
        .select(list(SPLIT_SCHEMA))
    )
