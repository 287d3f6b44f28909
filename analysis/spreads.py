"""How costs, categories and comparisons spread: what an average hides."""

import math

import numpy as np
import polars as pl

from analysis.bradley_terry import win_matrix
from analysis.ranking import Ranking

COST_DISTRIBUTION_SCHEMA = {
    "strategy": pl.String,
    "from_usd": pl.Float64,
    "to_usd": pl.Float64,
    "tasks": pl.Int64,
    "cost_usd": pl.Float64,
}

COST_TAIL_SCHEMA = {
    "dearest_share": pl.Float64,
    "tasks": pl.Int64,
    "least_usd": pl.Float64,
    "cost_usd": pl.Float64,
    "share_of_cost": pl.Float64,
}

DEAREST_SCHEMA = {
    "task_id": pl.String,
    "strategy": pl.String,
    "category": pl.String,
    "cost_usd": pl.Float64,
    "tokens": pl.Float64,
    "success_rate": pl.Float64,
}

CATEGORIES_SCHEMA = {
    "category": pl.String,
    "strategy": pl.String,
    "tasks": pl.Int64,
    "trials": pl.Int64,
    "judged": pl.Int64,
    "success_rate": pl.Float64,
    "mean_tokens": pl.Float64,
    "mean_cost_usd": pl.Float64,
    "unknown_tokens": pl.Int64,
    "unknown_cost": pl.Int64,
}

WIN_SHARES_SCHEMA = {
    "strategy": pl.String,
    "opponent": pl.String,
    "win_share": pl.Float64,
    "tasks": pl.Int64,
}

BINS_PER_DECADE = 5
TAILS = (0.01, 0.05, 0.1, 0.25, 0.5)
MOST_DEAREST = 20


def per_task(trials: pl.DataFrame) -> pl.DataFrame:
    """One row per strategy and task with an answer: means over its repeats, null where no repeat is known.

    Args:
        trials: as `tokens.trial_usage` gives it.
    """
    return (
        trials.filter(pl.col("answered"))
        .group_by("strategy", "task_id")
        .agg(
            category=pl.col("category").first(),
            trials=pl.len(),
            judged=pl.col("confirmed_success").count(),
            success_rate=pl.col("confirmed_success").mean(),
            tokens=pl.col("total_tokens").mean(),
            cost_usd=pl.col("cost_usd").mean(),
            unknown_tokens=pl.col("total_tokens").null_count(),
            unknown_cost=pl.col("cost_usd").null_count(),
        )
        .sort("strategy", "task_id")
    )


def cost_distribution(tasks: pl.DataFrame) -> pl.DataFrame:
    """`cost_distribution`: how many tasks cost how much, per strategy, in bins of equal ratio (five a decade).

    A cost at an edge is in the lower bin; costs of exactly 0 are a bin of their own from 0 to 0.
    """
    known = tasks.filter(pl.col("cost_usd").is_not_null())
    place = (pl.col("cost_usd").log10() * BINS_PER_DECADE - 1e-9).ceil()
    paid = pl.col("cost_usd") > 0
    return _shaped(
        known.with_columns(place=pl.when(paid).then(place))
        .group_by("strategy", "place")
        .agg(tasks=pl.len(), cost_usd=pl.col("cost_usd").sum())
        .with_columns(
            from_usd=_edge(pl.col("place") - 1),
            to_usd=_edge(pl.col("place")),
        )
        .sort("strategy", "to_usd"),
        COST_DISTRIBUTION_SCHEMA,
    )


def _edge(place: pl.Expr) -> pl.Expr:
    return (math.log(10) / BINS_PER_DECADE * place).exp().round_sig_figs(9).fill_null(0.0)


def cost_tail(tasks: pl.DataFrame) -> pl.DataFrame:
    """`cost_tail`: what the dearest tasks cost together, each strategy's work on a task counted as one of its own."""
    costs = np.sort(tasks["cost_usd"].drop_nulls().to_numpy())[::-1]
    total = float(costs.sum())
    rows = []
    for share in TAILS if len(costs) else ():
        count = math.ceil(share * len(costs) - 1e-9)
        cost = float(costs[:count].sum())
        rows.append((share, count, float(costs[count - 1]), cost, cost / total if total else None))
    return pl.DataFrame(rows, schema=COST_TAIL_SCHEMA, orient="row")


def dearest(tasks: pl.DataFrame) -> pl.DataFrame:
    """`dearest`: the tasks that cost most, by strategy; by tokens where no cost is known."""
    order = "cost_usd" if tasks["cost_usd"].count() else "tokens"
    found = tasks.filter(pl.col(order).is_not_null()).sort(
        order, "task_id", "strategy", descending=[True, False, False]
    )
    return _shaped(found.head(MOST_DEAREST), DEAREST_SCHEMA)


def categories(tasks: pl.DataFrame) -> pl.DataFrame:
    """`categories`: success, tokens and cost of each strategy in each category, averaged over its tasks."""
    sums = tasks.group_by(pl.col("category").fill_null("(none)"), "strategy").agg(
        pl.col("trials", "judged", "unknown_tokens", "unknown_cost").sum(),
        pl.col("success_rate").mean(),
        tasks=pl.len(),
        mean_tokens=pl.col("tokens").mean(),
        mean_cost_usd=pl.col("cost_usd").mean(),
    )
    return _shaped(sums.sort("category", "strategy"), CATEGORIES_SCHEMA)


def win_shares(ranking: Ranking | None) -> pl.DataFrame:
    """`win_shares`: how much of each pair's comparisons the one won, by the weights and tie rule of the ranking."""
    if ranking is None:
        return pl.DataFrame(schema=WIN_SHARES_SCHEMA)
    wins = win_matrix(ranking.weighed)
    games = wins + wins.T
    size, names = len(wins), ranking.strategies
    cells = ranking.weighed
    shared = np.bincount(cells.first * size + cells.second, minlength=size * size).reshape(size, size)
    tasks = shared + shared.T
    order = np.argsort(-ranking.elo, kind="stable").tolist()
    rows = [
        (names[i], names[j], float(wins[i, j] / games[i, j]), int(tasks[i, j]))
        for i in order
        for j in order
        if i != j and games[i, j] > 0
    ]
    return pl.DataFrame(rows, schema=WIN_SHARES_SCHEMA, orient="row")


def _shaped(table: pl.DataFrame, schema: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    return table.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
