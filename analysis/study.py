"""One analysis from checked frames to result tables; it writes nothing."""

from dataclasses import dataclass

import polars as pl

from analysis.comparisons import Cells, cells_from_comparisons, cells_from_outcomes
from analysis.errors import NotIdentifiedError
from analysis.frames import calls_frame, outcomes_frame, strategies_frame
from analysis.options import Options
from analysis.ranking import Ranking, rank
from analysis.scaling import Points, points
from analysis.tables import elo_per_token, elo_table
from analysis.tokens import strategy_tokens, success_rates, task_matrix, trial_usage


@dataclass(frozen=True, kw_only=True)
class Study:
    """Everything that was found out; the reports only show it."""

    options: Options
    strategies: pl.DataFrame
    trials: pl.DataFrame
    """The outcomes with what each trial used, as `tokens.trial_usage` gives it."""
    cells: Cells
    ranking: Ranking | None
    refusal: str | None
    """Why there is no ranking."""
    points: Points | None
    elo: pl.DataFrame
    tokens: pl.DataFrame
    scaling: pl.DataFrame
    """The `elo_per_token` table."""
    success: pl.DataFrame
    """`strategy, success_rate, success_rate_of_all`, see `tokens.success_rates`."""
    from_outcomes: bool
    """Whether the comparisons come from the trials' own outcomes, not from verdicts."""


def study(
    *,
    outcomes: pl.DataFrame,
    calls: pl.DataFrame,
    strategies: pl.DataFrame | None = None,
    comparisons: pl.DataFrame | None = None,
    options: Options,
) -> Study:
    """Analyse a set of trials.

    Args:
        outcomes: one row per trial, see `frames.OUTCOMES`.
        calls: one row per HTTP attempt, see `frames.CALLS`.
        strategies: see `frames.STRATEGIES`; by default those of the outcomes, each its own family.
        comparisons: verdicts (`task_id, winner, loser, tie, weight`) to rank by instead of the outcomes.
        options: what the user chose.

    Raises:
        FrameError: a table cannot be used.
        OptionError: an option names a strategy that does not exist.
    """
    checked = outcomes_frame(outcomes)
    listed = strategies_frame(strategies, checked)
    names = listed["strategy"].to_list()
    trials = trial_usage(checked, calls_frame(calls))
    cells = (
        cells_from_outcomes(checked, names)
        if comparisons is None
        else cells_from_comparisons(comparisons, names)
    )
    ranking, refusal = _rank(cells, options)
    tokens = strategy_tokens(trials, names)
    placed = None if ranking is None else _points(ranking, trials)
    return Study(
        options=options,
        strategies=listed,
        trials=trials,
        cells=cells,
        ranking=ranking,
        refusal=refusal,
        points=placed,
        elo=elo_table(ranking, names),
        tokens=tokens,
        scaling=elo_per_token(listed, tokens, placed, options),
        success=success_rates(trials, names),
        from_outcomes=comparisons is None,
    )


def _rank(cells: Cells, options: Options) -> tuple[Ranking | None, str | None]:
    try:
        return rank(cells, options), None
    except NotIdentifiedError as error:
        return None, str(error)


def _points(ranking: Ranking, trials: pl.DataFrame) -> Points:
    tokens = task_matrix(trials, "total_tokens", ranking.cells.tasks, ranking.strategies)
    return points(ranking, tokens, ranking.cells.task_weight)
