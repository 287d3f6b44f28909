"""Tables to decide by: frontier, pairs, net benefit, and the same ranking under other estimators."""

from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl

from analysis.arrays import Bools, Floats
from analysis.bootstrap import Resamples, weighted_means
from analysis.bradley_terry import elo
from analysis.errors import NotIdentifiedError
from analysis.options import Options
from analysis.pareto import on_frontier, on_hull, p_on_frontier
from analysis.ranking import Ranking, anchor_index, fit_cells
from analysis.ranks import Pair, Standing
from analysis.scaling import Points
from analysis.two_stage import two_stage
from analysis.weighting import Weighting, weigh

PARETO_SCHEMA = {
    "strategy": pl.String,
    "cost_usd": pl.Float64,
    "success_rate": pl.Float64,
    "on_frontier": pl.Boolean,
    "p_on_frontier": pl.Float64,
    "on_hull": pl.Boolean,
    "avg_total_tokens": pl.Float64,
    "elo": pl.Float64,
    "on_token_frontier": pl.Boolean,
    "p_on_token_frontier": pl.Float64,
    "on_token_hull": pl.Boolean,
}

PAIRS_SCHEMA = dict.fromkeys(Pair.__dataclass_fields__, pl.Float64) | {
    "strategy": pl.String,
    "opponent": pl.String,
    "tasks_needed": pl.Int64,
}

NET_BENEFIT_SCHEMA = {
    "threshold": pl.Float64,
    "strategy": pl.String,
    "net_elo": pl.Float64,
    "best": pl.Boolean,
}

THRESHOLDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Elo per 1,000 tokens at which the net benefit is given, besides the user's own."""

ESTIMATORS_SCHEMA = {
    "strategy": pl.String,
    "task_equal": pl.Float64,
    "pooled": pl.Float64,
    "ranking_weight": pl.Float64,
    "two_stage": pl.Float64,
    "davidson": pl.Float64,
    "ties_dropped": pl.Float64,
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """(T, S) values per task and strategy, NaN where unknown; S are all strategies."""

    strategies: tuple[str, ...]
    tokens: Floats
    cost_usd: Floats
    success: Floats
    weights: Floats
    """(T,) how much each task counts."""


def pareto_table(measured: Measured, ranking: Ranking | None, resamples: Resamples) -> pl.DataFrame:
    """`pareto`: who is on the frontier of cost and success, and of tokens and Elo, and how surely.

    A strategy with unknown cost is on no frontier of cost. How sure a point is, is the share of resampled
    sets of tasks in which it is on the frontier; it is not given to a strategy without a single success.
    """
    weights, counts = measured.weights[None], resamples.task_counts * measured.weights
    success, again = (weighted_means(measured.success, w) for w in (weights, counts))
    without = ~(np.nansum(measured.success, axis=0) > 0)
    strength = np.full((1, len(measured.strategies)), np.nan)
    strength_again = np.full((len(counts), len(measured.strategies)), np.nan)
    if ranking is not None and resamples.elo is not None:
        columns = [measured.strategies.index(name) for name in ranking.strategies]
        strength[0, columns], strength_again[:, columns] = ranking.elo, resamples.elo
    by_cost = _frontier(measured.cost_usd, success, again, weights, counts)
    by_tokens = _frontier(measured.tokens, strength, strength_again, weights, counts)
    table = pl.DataFrame(
        {
            "strategy": measured.strategies,
            "cost_usd": by_cost[0],
            "success_rate": success[0],
            "on_frontier": by_cost[1],
            "p_on_frontier": np.where(without, np.nan, by_cost[2]),
            "on_hull": by_cost[3],
            "avg_total_tokens": by_tokens[0],
            "elo": strength[0],
            "on_token_frontier": by_tokens[1],
            "p_on_token_frontier": np.where(without, np.nan, by_tokens[2]),
            "on_token_hull": by_tokens[3],
        },
        schema=PARETO_SCHEMA,
    )
    return table.with_columns(pl.col(pl.Float64).fill_nan(None)).sort("cost_usd", "strategy", nulls_last=True)


def pairs_table(standing: Standing | None) -> pl.DataFrame:
    """`pairs`: every pair whose difference has a standard error, the stronger strategy first."""
    rows = [] if standing is None else [asdict(pair) for pair in standing.pairs]
    return pl.DataFrame(rows, schema=PAIRS_SCHEMA).select(list(Pair.__dataclass_fields__))


def net_benefit_table(points: Points | None, options: Options) -> pl.DataFrame:
    """`net_benefit`: Elo beyond what the tokens had to buy, against the cheapest strategy, per threshold."""
    rows: list[tuple[float, str, float, bool]] = []
    if points is None or not points.by_tokens:
        return pl.DataFrame(schema=NET_BENEFIT_SCHEMA)
    order = points.by_tokens
    for threshold in sorted({*THRESHOLDS, options.threshold}):
        net = points.elo[order] - threshold * points.tokens[order] / 1000
        best = order[int(np.argmax(net))]
        rows += [
            (threshold, points.strategies[i], float(n - net[0]), i == best)
            for i, n in zip(order, net, strict=True)
        ]
    return pl.DataFrame(rows, schema=NET_BENEFIT_SCHEMA, orient="row")


def estimators_table(ranking: Ranking | None) -> pl.DataFrame:
    """`estimators`: Elo of the same comparisons under other weights, tie rules and models.

    Where the order depends on the estimator, a conclusion that needs one of them is weak.
    """
    if ranking is None:
        return pl.DataFrame(schema=ESTIMATORS_SCHEMA)
    choices = {
        "task_equal": Weighting(),
        "pooled": Weighting(weight="comparison"),
        "ranking_weight": Weighting(weight="ranking"),
        "davidson": Weighting(ties="davidson"),
        "ties_dropped": Weighting(ties="drop"),
    }
    anchor = anchor_index(ranking)
    found = {name: _refitted(ranking, weighting) for name, weighting in choices.items()}
    found["two_stage"] = elo(two_stage(weigh(ranking.cells, Weighting())), anchor)
    columns = {name: found[name] for name in ESTIMATORS_SCHEMA if name != "strategy"}
    table = pl.DataFrame({"strategy": ranking.strategies, **columns}, schema=ESTIMATORS_SCHEMA)
    return table.with_columns(pl.col(pl.Float64).fill_nan(None)).sort("task_equal", descending=True)


def _refitted(ranking: Ranking, weighting: Weighting) -> Floats:
    weighed = weigh(ranking.cells, weighting)
    compared = np.union1d(weighed.first, weighed.second)
    if len(compared) < len(ranking.strategies):
        return np.full(len(ranking.strategies), np.nan)
    try:
        fitted = fit_cells(weighed, replace(ranking.options, weighting=weighting))
    except NotIdentifiedError:
        return np.full(len(ranking.strategies), np.nan)
    return elo(fitted.theta, anchor_index(ranking))


def _frontier(
    price: Floats, result: Floats, result_again: Floats, weights: Floats, counts: Floats
) -> tuple[Floats, Bools, Floats, Bools]:
    """(S,) mean price, whether on the frontier, how surely, whether on the hull."""
    mean = weighted_means(price, weights)[0]
    again = weighted_means(price, counts)
    known = np.isfinite(mean) & np.isfinite(result[0])
    sure = np.where(known, p_on_frontier(again, result_again), np.nan)
    return mean, on_frontier(mean, result[0]), np.asarray(sure), on_hull(mean, result[0])
