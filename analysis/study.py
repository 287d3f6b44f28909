"""One analysis from checked frames to result tables; it writes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from analysis.bootstrap import Measured, resample
from analysis.buckets import token_buckets
from analysis.comparisons import Cells, cells_from_comparisons, cells_from_outcomes, comparison_table
from analysis.costs import cost_split, cost_summary
from analysis.decision_tables import estimators_table, net_benefit_table, pairs_table, pareto_table
from analysis.diagnostics import diagnostics
from analysis.effects import hierarchical_table
from analysis.errors import NotIdentifiedError, OptionError
from analysis.frames import calls_frame, outcomes_frame, strategies_frame
from analysis.options import Options
from analysis.ranking import Ranking, rank
from analysis.ranks import Standing, standing
from analysis.scaling import Points, points
from analysis.spreads import categories, cost_distribution, cost_tail, dearest, per_task, win_shares
from analysis.tables import elo_per_token, elo_table
from analysis.tokens import strategy_tokens, success_rates, task_matrix, trial_usage


@dataclass(frozen=True, kw_only=True)
class Study:
    """Everything that was found out; the reports only show it."""

    options: Options
    trials: pl.DataFrame
    """The outcomes with what each trial used, as `tokens.trial_usage` gives it."""
    ranking: Ranking | None
    refusal: str | None
    """Why there is no ranking."""
    points: Points | None
    """Tokens and Elo of the ranked strategies."""
    standing: Standing | None
    success: pl.DataFrame
    """`strategy, success_rate, success_rate_of_all`, see `tokens.success_rates`."""
    tables: Mapping[str, pl.DataFrame]
    """The tables of `docs/outputs.md` by the name of their CSV file, without `.csv`."""
    diagnostics: Mapping[str, Any]
    """What `diagnostics.json` holds."""
    hierarchical_refusal: str | None
    """Why a hierarchical fit that was asked for is not there."""
    from_outcomes: bool
    """Whether the comparisons come from the trials' own outcomes, not from verdicts."""
    compared_by: str
    """Who or what made the comparisons, for a reader; empty where the files say it."""


def study(
    *,
    outcomes: pl.DataFrame,
    calls: pl.DataFrame,
    strategies: pl.DataFrame | None = None,
    comparisons: pl.DataFrame | None = None,
    rankings: pl.DataFrame | None = None,
    judges: pl.DataFrame | None = None,
    compared_by: str = "",
    options: Options,
) -> Study:
    """Analyse a set of trials.

    Args:
        outcomes: one row per trial, see `frames.OUTCOMES`.
        calls: one row per HTTP attempt, see `frames.CALLS`.
        strategies: see `frames.STRATEGIES`; by default those of the outcomes, each its own family.
        comparisons: verdicts (`task_id, winner, loser, tie, weight`) to rank by instead of the outcomes.
        rankings: the rankings that `comparisons` were read off, for the hierarchical fit.
        judges: how far the judges can be trusted, as `judges.judge_quality` gives it.
        compared_by: who or what made the comparisons, for a reader.
        options: what the user chose.

    Raises:
        FrameError: a table cannot be used.
        OptionError: an option names a strategy that does not exist.
    """
    checked, ledger = outcomes_frame(outcomes), calls_frame(calls)
    listed = strategies_frame(strategies, checked)
    names = listed["strategy"].to_list()
    if options.baseline is not None and options.baseline not in names:
        raise OptionError(f"baseline {options.baseline!r} is no strategy; known are {', '.join(names)}.")
    trials = trial_usage(checked, ledger)
    cells = _cells(checked, comparisons, names)
    ranking, refusal = _rank(cells, options)
    measured = _measured(cells, trials, names)
    placed = None if ranking is None else _points(ranking, measured)
    stands = None if ranking is None else standing(ranking)
    draws = resample(ranking, measured, resamples=options.bootstrap, seed=options.seed)
    effects, effects_refusal = _effects(checked, comparisons, rankings, names, options)
    elo, tokens = elo_table(ranking, stands, names), strategy_tokens(trials, names)
    tasks = per_task(trials)
    return Study(
        options=options,
        trials=trials,
        ranking=ranking,
        refusal=refusal,
        points=placed,
        standing=stands,
        success=success_rates(trials, names),
        tables={
            "comparisons": comparison_table(cells),
            "elo_table": elo,
            "strategy_tokens": tokens,
            "elo_per_token": elo_per_token(listed, tokens, placed, options),
            "token_buckets": token_buckets(trials, elo, options.buckets),
            "cost_summary": cost_summary(trials, options.reference_cost_usd),
            "cost_split": cost_split(trials, ledger),
            "cost_distribution": cost_distribution(tasks),
            "cost_tail": cost_tail(tasks),
            "dearest": dearest(tasks),
            "categories": categories(tasks),
            "pareto": pareto_table(measured, ranking, draws),
            "pairs": pairs_table(stands),
            "win_shares": win_shares(ranking),
            "net_benefit": net_benefit_table(placed, options),
            "estimators": estimators_table(ranking),
            **effects,
            **({} if judges is None else {"judges": judges}),
        },
        diagnostics={
            **({} if ranking is None else diagnostics(ranking, stands)),
            **({} if judges is None else {"judges": judges.to_dicts()}),
        },
        hierarchical_refusal=effects_refusal,
        from_outcomes=comparisons is None,
        compared_by=compared_by,
    )


def _cells(outcomes: pl.DataFrame, comparisons: pl.DataFrame | None, names: list[str]) -> Cells:
    if comparisons is None:
        return cells_from_outcomes(outcomes, names)
    weights = dict(outcomes.select("task_id", "task_weight").iter_rows())
    return cells_from_comparisons(comparisons, names, weights)


def _rank(cells: Cells, options: Options) -> tuple[Ranking | None, str | None]:
    try:
        return rank(cells, options), None
    except NotIdentifiedError as error:
        return None, str(error)


def _effects(
    outcomes: pl.DataFrame,
    comparisons: pl.DataFrame | None,
    rankings: pl.DataFrame | None,
    names: list[str],
    options: Options,
) -> tuple[dict[str, pl.DataFrame], str | None]:
    if not options.hierarchical:
        return {}, None
    try:
        return {"hierarchical": hierarchical_table(outcomes, comparisons, rankings, names, options)}, None
    except NotIdentifiedError as error:
        return {}, str(error)


def _measured(cells: Cells, trials: pl.DataFrame, names: list[str]) -> Measured:
    return Measured(
        strategies=tuple(names),
        tokens=task_matrix(trials, "total_tokens", cells.tasks, names),
        cost_usd=task_matrix(trials, "cost_usd", cells.tasks, names),
        success=task_matrix(trials, "confirmed_success", cells.tasks, names),
        weights=cells.task_weight,
    )


def _points(ranking: Ranking, measured: Measured) -> Points:
    columns = [measured.strategies.index(name) for name in ranking.strategies]
    return points(ranking, measured.tokens[:, columns], measured.weights)
