"""The result tables, as polars frames whose columns are those of the CSV files."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from analysis.bradley_terry import win_matrix
from analysis.options import Options
from analysis.ranking import Ranking
from analysis.ranks import Standing, ranks
from analysis.scaling import Points, Step, recommended, step

ELO_SCHEMA = {
    "strategy": pl.String,
    "elo": pl.Float64,
    "elo_se": pl.Float64,
    "elo_low": pl.Float64,
    "elo_high": pl.Float64,
    "rank": pl.Int64,
    "rank_low": pl.Int64,
    "rank_high": pl.Int64,
    "n_tasks": pl.Int64,
    "win_rate": pl.Float64,
    "tie_share": pl.Float64,
}

ELO_PER_TOKEN_SCHEMA = {
    "strategy": pl.String,
    "family": pl.String,
    "tier": pl.Int64,
    "avg_total_tokens": pl.Float64,
    "elo": pl.Float64,
    "elo_per_1k": pl.Float64,
    "gain_per_1k": pl.Float64,
    "marginal_elo_per_1k": pl.Float64,
    "marginal_low": pl.Float64,
    "marginal_high": pl.Float64,
    "family_marginal_elo_per_1k": pl.Float64,
    "p_above_threshold": pl.Float64,
    "assessment": pl.String,
    "recommended": pl.Boolean,
    "more_tasks": pl.Int64,
}


def elo_table(ranking: Ranking | None, standing: Standing | None, strategies: Sequence[str]) -> pl.DataFrame:
    """`elo_table`, the strongest first; strategies without an Elo last, with empty cells."""
    ranked = [] if ranking is None else _elo_rows(ranking, standing)
    named = {row["strategy"] for row in ranked}
    rest = [{"strategy": name} for name in strategies if name not in named]
    table = pl.DataFrame(ranked + rest, schema=ELO_SCHEMA)
    return table.sort("elo", descending=True, nulls_last=True, maintain_order=True)


def elo_per_token(
    strategies: pl.DataFrame, tokens: pl.DataFrame, points: Points | None, options: Options
) -> pl.DataFrame:
    """`elo_per_token`, by average tokens; strategies whose tokens are unknown last.

    Args:
        strategies: as `frames.strategies_frame` gives it.
        tokens: the `strategy_tokens` table.
        points: Elo and tokens of the ranked strategies; None where no Elo exists.
        options: threshold, level and baseline.
    """
    rows = strategies.select("strategy", "family", "tier").join(
        tokens.select("strategy", "avg_total_tokens"), on="strategy", how="left", maintain_order="left"
    )
    extra = {} if points is None else _scaling_rows(strategies, points, options)
    complete = [row | extra.get(row["strategy"], {}) for row in rows.iter_rows(named=True)]
    table = pl.DataFrame(complete, schema=ELO_PER_TOKEN_SCHEMA)
    return table.with_columns(pl.col("recommended").fill_null(value=False)).sort(
        "avg_total_tokens", nulls_last=True, maintain_order=True
    )


def _elo_rows(ranking: Ranking, standing: Standing | None) -> list[dict[str, object]]:
    cells, size = ranking.cells, len(ranking.strategies)
    wins = win_matrix(ranking.weighed)
    games = wins + wins.T
    low, high = ranking.intervals()
    errors = ranking.standard_errors
    rows: list[dict[str, object]] = []
    for index, name in enumerate(ranking.strategies):
        mine = (cells.first == index) | (cells.second == index)
        rows.append(
            {
                "strategy": name,
                "elo": float(ranking.elo[index]),
                "elo_se": None if errors is None else float(errors[index]),
                "elo_low": _number(low[index]),
                "elo_high": _number(high[index]),
                "rank": int(ranks(ranking.elo)[index]),
                "rank_low": None
                if standing is None or standing.rank_low is None
                else int(standing.rank_low[index]),
                "rank_high": None
                if standing is None or standing.rank_high is None
                else int(standing.rank_high[index]),
                "n_tasks": len(np.unique(cells.task[mine])),
                "win_rate": float(wins[index].sum() / games[index].sum()) if size > 1 else None,
                "tie_share": float(np.mean(cells.tie[mine] / cells.total[mine])),
            }
        )
    return rows


def _scaling_rows(strategies: pl.DataFrame, points: Points, options: Options) -> dict[str, dict[str, object]]:
    order = points.by_tokens
    best = recommended(points, options)
    baseline = _baseline(points, options)
    family_step = _family_steps(strategies, points)
    rows: dict[str, dict[str, object]] = {
        name: {"elo": float(points.elo[index])} for index, name in enumerate(points.strategies)
    }
    for place, index in enumerate(order):
        row = rows[points.strategies[index]]
        row["elo_per_1k"] = (
            _number(points.elo[index] / points.tokens[index] * 1000) if points.tokens[index] else None
        )
        row["gain_per_1k"] = step(points, baseline, index).elo_per_1k if baseline is not None else None
        row["family_marginal_elo_per_1k"] = family_step.get(index)
        row["recommended"] = index == best
        if place:
            row |= _marginal(step(points, order[place - 1], index), options)
    return rows


def _marginal(marginal: Step, options: Options) -> dict[str, object]:
    low, high = marginal.limits(options.level) or (None, None)
    assessment = marginal.assessment(options.threshold, options.level)
    return {
        "marginal_elo_per_1k": marginal.elo_per_1k,
        "marginal_low": low,
        "marginal_high": high,
        "p_above_threshold": marginal.p_above(options.threshold),
        "assessment": assessment,
        "more_tasks": marginal.more_tasks(options.threshold, options.level)
        if assessment == "cannot tell yet"
        else None,
    }


def _baseline(points: Points, options: Options) -> int | None:
    if options.baseline in points.strategies:
        named = points.strategies.index(options.baseline)
        return named if named in points.by_tokens else None
    return points.by_tokens[0] if points.by_tokens else None


def _family_steps(strategies: pl.DataFrame, points: Points) -> dict[int, float | None]:
    """Per strategy the Elo per extra 1,000 tokens from the tier below in its own family."""
    known = set(points.by_tokens)
    steps: dict[int, float | None] = {}
    for (_family,), tiers in strategies.sort("tier", "position").group_by("family", maintain_order=True):
        members = [points.strategies.index(n) for n in tiers["strategy"] if n in points.strategies]
        members = [index for index in members if index in known]
        for below, above in pairwise(members):
            steps[above] = step(points, below, above).elo_per_1k
    return steps


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
