"""Strategy-by-task effects from a study's evidence: which likelihood fits it, whether it can show effects at
all.

An effect of a task on a strategy shows only where the same strategy meets the same unit more than once in
independent trials; otherwise effect and chance look alike, and the fit is refused.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from scipy import special

from analysis.arrays import Floats, Ints
from analysis.bradley_terry import ELO_PER_THETA
from analysis.errors import NotIdentifiedError
from analysis.hierarchical import Hierarchical, elo_scale, fit_hierarchical
from analysis.likelihoods import Likelihood, Outcomes, Rankings, Verdicts
from analysis.options import Options
from analysis.sources import ranking_scores

FEW_UNITS = 5
LARGEST_SIGMA = 4.0
"""Beyond it a strategy's chance on a task is nearly always 0 or 1, and the likelihood is flat."""

SCHEMA = {
    "unit": pl.String,
    "strategy": pl.String,
    "elo_conditional": pl.Float64,
    "elo_se": pl.Float64,
    "elo_low": pl.Float64,
    "elo_high": pl.Float64,
    "elo_population": pl.Float64,
    "sigma_u": pl.Float64,
    "sigma_u_low": pl.Float64,
    "sigma_u_high": pl.Float64,
}

ALL = "(all)"
"""The unit of the rows about all tasks."""


def hierarchical_table(
    outcomes: pl.DataFrame,
    comparisons: pl.DataFrame | None,
    rankings: pl.DataFrame | None,
    strategies: Sequence[str],
    options: Options,
) -> pl.DataFrame:
    """`hierarchical`: mean abilities first, then each unit's own, shrunk towards them.

    Args:
        outcomes: as `frames.outcomes_frame` gives it.
        comparisons: separate verdicts on pairs, where there are any.
        rankings: rankings, where there are any.
        strategies: all names.
        options: `group` says whether the units are tasks or categories.

    Raises:
        NotIdentifiedError: the evidence cannot tell effects from chance; the message offers what can.
    """
    unit_of = _units(outcomes, options.group)
    if rankings is not None:
        units, names, likelihood = _rankings(ranking_scores(rankings), unit_of, strategies)
    elif comparisons is not None:
        units, names, likelihood = _verdicts(comparisons, unit_of, strategies)
    elif outcomes["score"].is_not_null().any():
        judged = outcomes.filter(pl.col("score").is_not_null())
        units, names, likelihood = _rankings(
            judged.select("task_id", "repeat", "strategy", "score"), unit_of, strategies
        )
    else:
        units, names, likelihood = _outcomes(outcomes, unit_of, strategies)
    if len(units) < FEW_UNITS:
        raise NotIdentifiedError(
            f"No hierarchical fit: {len(units)} {options.group} units are too few to show a spread."
        )
    fitted = fit_hierarchical(likelihood, level=options.level, seed=options.seed)
    if not fitted.converged or fitted.sigma > LARGEST_SIGMA:
        raise NotIdentifiedError(
            f"No hierarchical fit: the effects have no finite size (σ about {fitted.sigma:.1f} logits), because "
            "repeats hardly ever differ. Use the one-stage Elo, or --group category."
        )
    return _table(fitted, units, names, options.level)


def _units(outcomes: pl.DataFrame, group: str) -> Mapping[str, str] | None:
    """Task -> category; None where every task is its own unit."""
    if group == "task":
        return None
    known = outcomes.filter(pl.col("category").is_not_null())
    if known.height == 0:
        raise NotIdentifiedError(
            "No hierarchical fit by category: no task has a category. Add it to the outcomes."
        )
    return dict(known.select("task_id", "category").iter_rows())


def _with_units(frame: pl.DataFrame, unit_of: Mapping[str, str] | None) -> tuple[pl.DataFrame, list[str]]:
    """The frame with the number of each row's unit `u`, and the units' names."""
    if unit_of is None:
        named = frame.with_columns(unit=pl.col("task_id"))
    else:
        named = frame.with_columns(
            unit=pl.col("task_id").replace_strict(unit_of, default=None, return_dtype=pl.String)
        )
        named = named.filter(pl.col("unit").is_not_null())
    units = named["unit"].unique().sort().to_list()
    place = {name: number for number, name in enumerate(units)}
    return named.with_columns(u=pl.col("unit").replace_strict(place, return_dtype=pl.Int64)), units


def _present(names: Sequence[str], *columns: pl.Series) -> tuple[list[str], list[Ints]]:
    """The strategies that occur, and the columns as numbers of them."""
    occurring = set().union(*(set(column.unique()) for column in columns))
    kept = [name for name in names if name in occurring]
    place = {name: number for number, name in enumerate(kept)}
    return kept, [column.replace_strict(place, return_dtype=pl.Int64).to_numpy() for column in columns]


def _outcomes(
    outcomes: pl.DataFrame, unit_of: Mapping[str, str] | None, names: Sequence[str]
) -> tuple[list[str], list[str], Likelihood]:
    judged = outcomes.filter(pl.col("confirmed_success").is_not_null())
    counted, units = _with_units(judged, unit_of)
    kept, (strategy,) = _present(names, counted["strategy"])
    shape = (len(units), len(kept))
    at = counted["u"].to_numpy() * shape[1] + strategy
    trials = _sums(at, np.ones(len(at)), shape)
    right = _sums(at, counted["confirmed_success"].cast(pl.Float64).to_numpy(), shape)
    if trials.max(initial=0) < 2:
        raise NotIdentifiedError(_once("one outcome", unit_of))
    return units, kept, Outcomes(successes=right, trials=trials)


def _rankings(
    scores: pl.DataFrame, unit_of: Mapping[str, str] | None, names: Sequence[str]
) -> tuple[list[str], list[str], Likelihood]:
    key = ["task_id", "repeat"]
    if scores.select(pl.struct(*key, "score").is_duplicated().any()).item():
        raise NotIdentifiedError(
            "No hierarchical fit: some rankings have ties, which the model of rankings does not know. Break them, "
            "or give right-or-wrong outcomes."
        )
    sorted_rows, units = _with_units(scores.sort(*key, "score", descending=[False, False, True]), unit_of)
    kept, (strategy,) = _present(names, sorted_rows["strategy"])
    sorted_rows = sorted_rows.with_columns(s=pl.Series(strategy)).sort("u", maintain_order=True)
    lists = sorted_rows.group_by(key, maintain_order=True).agg(pl.col("u").first(), "s")
    lists = lists.filter(pl.col("s").list.len() > 1)
    unit = lists["u"].to_numpy()
    if lists.height == 0 or np.bincount(unit).max() < 2:
        raise NotIdentifiedError(_once("one ranking", unit_of))
    order = np.full((lists.height, len(kept)), -1, dtype=np.int64)
    for row, items in enumerate(lists["s"]):
        order[row, : len(items)] = items.to_numpy()
    return units, kept, Rankings(units=len(units), strategies=len(kept), unit=unit, order=order)


def _verdicts(
    comparisons: pl.DataFrame, unit_of: Mapping[str, str] | None, names: Sequence[str]
) -> tuple[list[str], list[str], Likelihood]:
    if "items" in comparisons.columns and comparisons.filter(pl.col("items") > 2).height:
        raise NotIdentifiedError(
            "No hierarchical fit: these comparisons were read off rankings and are not independent. Give --rankings."
        )
    if "tie" in comparisons.columns and comparisons["tie"].any():
        raise NotIdentifiedError(
            "No hierarchical fit: some verdicts are ties, which the model of verdicts does not know. Leave them out "
            "of the file if they carry no information."
        )
    counted, units = _with_units(comparisons.with_columns(pl.col("task_id").cast(pl.String)), unit_of)
    kept, (winner, loser) = _present(names, counted["winner"], counted["loser"])
    size = len(kept)
    first, second = np.triu_indices(size, 1)
    pair_of = np.zeros((size, size), dtype=np.int64)
    pair_of[first, second] = pair_of[second, first] = np.arange(len(first))
    weight = counted["weight"].to_numpy() if "weight" in counted.columns else np.ones(counted.height)
    at = counted["u"].to_numpy() * len(first) + pair_of[winner, loser]
    shape = (len(units), len(first))
    count, wins = _sums(at, weight, shape), _sums(at, weight * (winner < loser), shape)
    if count.sum(axis=1).max(initial=0) < 2:
        raise NotIdentifiedError(_once("one verdict", unit_of))
    return units, kept, Verdicts(strategies=size, first=first, second=second, wins=wins, count=count)


def _sums(at: Ints, weight: Floats, shape: tuple[int, int]) -> Floats:
    return np.asarray(np.bincount(at, weight, shape[0] * shape[1]).reshape(shape), dtype=np.float64)


def _once(what: str, unit_of: Mapping[str, str] | None) -> str:
    instead = "Repeat the trials" if unit_of is not None else "Repeat the trials, or use --group category"
    return (
        f"No hierarchical fit: with {what} per unit and strategy, effects look just like chance. {instead}."
    )


def _table(fitted: Hierarchical, units: Sequence[str], names: Sequence[str], level: float) -> pl.DataFrame:
    reach = float(special.ndtri((1 + level) / 2)) * ELO_PER_THETA
    population = elo_scale(fitted.population)
    rows: list[dict[str, object]] = []
    for s, name in enumerate(names):
        elo = float(elo_scale(fitted.mu)[s])
        error = float(fitted.mu_se[s])
        rows.append(
            {
                "unit": ALL,
                "strategy": name,
                "elo_conditional": elo,
                "elo_se": error * ELO_PER_THETA,
                "elo_low": elo - reach * error,
                "elo_high": elo + reach * error,
                "elo_population": float(population[s]),
                "sigma_u": fitted.sigma,
                "sigma_u_low": fitted.sigma_low,
                "sigma_u_high": fitted.sigma_high,
            }
        )
    own = pl.DataFrame(
        {
            "unit": np.repeat(np.array(units, dtype=object), len(names)).tolist(),
            "strategy": list(names) * len(units),
            "elo_conditional": elo_scale(fitted.abilities).ravel(),
            "elo_se": fitted.abilities_sd.ravel() * ELO_PER_THETA,
        }
    ).with_columns(
        elo_low=pl.col("elo_conditional") - reach / ELO_PER_THETA * pl.col("elo_se"),
        elo_high=pl.col("elo_conditional") + reach / ELO_PER_THETA * pl.col("elo_se"),
    )
    return pl.concat([pl.DataFrame(rows, schema=SCHEMA), own], how="diagonal").select(list(SCHEMA))
