"""Tables to decide by: frontier, pairs, net benefit, and the same ranking under other estimators."""

from dataclasses import asdict, replace

import numpy as np
import polars as pl

from analysis.arrays import Bools, Floats
from analysis.bootstrap import Averages, Measured, observed
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


def pareto_table(measured: Measured, ranking: Ranking | None, draws: Averages) -> pl.DataFrame:
    """`pareto`: who is on the frontier of cost and success, and of tokens and Elo, and how surely.

    A strategy with unknown cost is on no frontier of cost. How sure a point is, is the share of resampled
    sets of tasks in which it is on the frontier; it is not given to a strategy without a single success.
    """
    found = observed(ranking, measured)
    by_cost = _frontier(found.cost_usd[0], found.success[0], draws.cost_usd, draws.success)
    by_tokens = _frontier(found.tokens[0], found.elo[0], draws.tokens, draws.elo)
    hopeless = ~(np.nansum(measured.success, axis=0) > 0)
    table = pl.DataFrame(
        {
            "strategy": measured.strategies,
            "cost_usd": found.cost_usd[0],
            "success_rate": found.success[0],
            "on_frontier": by_cost[0],
            "p_on_frontier": np.where(hopeless, np.nan, by_cost[1]),
            "on_hull": by_cost[2],
            "avg_total_tokens": found.tokens[0],
            "elo": found.elo[0],
            "on_token_frontier": by_tokens[0],
            "p_on_token_frontier": np.where(hopeless, np.nan, by_tokens[1]),
            "on_token_hull": by_tokens[2],
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


def _frontier(price: Floats, result: Floats, prices: Floats, results: Floats) -> tuple[Bools, Floats, Bools]:
    """(S,) whether on the frontier, how surely (NaN where unknown), whether on the hull."""
    known = np.isfinite(price) & np.isfinite(result) & (len(prices) > 0)
    sure = np.full(len(price), np.nan)
    sure[known] = p_on_frontier(prices, results)[known] if known.any() else 0
    return on_frontier(price, result), sure, on_hull(price, result)
