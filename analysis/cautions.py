"""What a reader must know before believing the numbers, in plain sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from analysis.ranking import Ranking
from analysis.scaling import order_depends_on_zero
from analysis.study import Study
from analysis.wording import counted

FEW_TASKS = 20
FEW_DECISIVE_TASKS = 10
MANY_TIES = 0.5
STRONG_BIAS = 0.2
LITTLE_AGREEMENT = 0.7
MANY_UNREAD = 0.05


def warnings(study: Study) -> tuple[str, ...]:
    """Reasons to doubt a conclusion, the weightiest first."""
    found = [] if study.refusal is None else [f"No Elo: {study.refusal}"]
    if study.ranking is not None:
        found += _ranking_warnings(study.ranking)
    if study.points is not None and order_depends_on_zero(study.points):
        found.append(
            "The order by elo_per_1k depends on which strategy stands at Elo 1000; gain_per_1k and "
            "marginal_elo_per_1k do not."
        )
    if study.hierarchical_refusal is not None:
        found.append(study.hierarchical_refusal)
    if "judges" in study.tables:
        for row in study.tables["judges"].iter_rows(named=True):
            found += _judge_warnings(row)
    return tuple(found + _usage_warnings(study))


def _judge_warnings(row: Mapping[str, Any]) -> list[str]:
    judge, unread = f"Judge {row['judge']}", row["unparsable"] + row["failed"]
    found = []
    if not row["verdicts"]:
        found.append(
            f"{judge} gave no verdict: {row['unparsable']} of its {row['calls']} replies cannot be read, "
            f"{row['failed']} never came."
        )
    elif unread > MANY_UNREAD * row["calls"]:
        found.append(
            f"{judge}: {row['unparsable']} of its {row['calls']} replies cannot be read, {row['failed']} never came; "
            "these are no verdicts."
        )
    bias, agreement = row["position_bias"], row["agreement"]
    if bias is not None and abs(bias) > STRONG_BIAS:
        place = "first" if bias > 0 else "last"
        found.append(f"{judge} prefers what is shown {place}: position bias {bias:.2f}, where 0 is none.")
    if agreement is not None and agreement < LITTLE_AGREEMENT:
        found.append(
            f"{judge} agrees with itself on {_percent(agreement)} of the pairs that it was shown twice."
        )
    return found


def notes(study: Study) -> tuple[str, ...]:
    """How the numbers were made: weights, ties, zero, and what was left out."""
    found = [f"Compared by {study.compared_by}."] if study.compared_by else []
    if study.ranking is not None:
        found += _ranking_notes(study)
    return tuple(found + _missing_notes(study))


def _ranking_warnings(ranking: Ranking) -> list[str]:
    found = []
    tasks, decisive = ranking.n_tasks, ranking.weighed.n_decisive_tasks
    if tasks < FEW_TASKS:
        found.append(
            f"Only {counted(tasks, 'task')} {'was' if tasks == 1 else 'were'} compared: "
            f"conclusions are weak below {FEW_TASKS}."
        )
    if decisive < FEW_DECISIVE_TASKS:
        found.append(
            f"Only {decisive} of {counted(tasks, 'task')} {'tells' if decisive == 1 else 'tell'} any two strategies "
            "apart; on the others all tie."
        )
    if (ranking.cells.tie_share or 0) > MANY_TIES:
        found.append(
            f"{_percent(ranking.cells.tie_share)} of the comparisons are ties: harder tasks would tell more."
        )
    for name, above, below in zip(ranking.strategies, ranking.open_above, ranking.open_below, strict=True):
        if above or below:
            found.append(_open(name, above=bool(above), below=bool(below)))
    if ranking.left_out:
        found.append(f"No comparison that counts, so no Elo: {', '.join(ranking.left_out)}.")
    if len(np.unique(ranking.cells_per_task)) > 1:
        found.append("The strategies were not all compared on the same tasks; missing ones are no failures.")
    return found


def _open(name: str, *, above: bool, below: bool) -> str:
    what = "never won or lost both ways" if above and below else "never lost" if above else "never won"
    return (
        f"{name} {what} against the others: its Elo is set by the penalty alone and its interval has an open "
        "side; it also moves the mean, and so everybody's Elo."
    )


def _usage_warnings(study: Study) -> list[str]:
    tokens, trials = study.tables["strategy_tokens"], study.trials
    found = []
    unknown = tokens.filter(pl.col("unknown_usage") > 0)
    for row in unknown.iter_rows(named=True):
        found.append(
            f"{row['strategy']}: the tokens of {row['unknown_usage']} of {row['ok_trials']} trials are "
            "unknown; they are left out of its averages."
        )
    silent = trials.select(pl.col("silent_calls").sum()).item()
    if silent:
        found.append(
            f"{counted(silent, 'call')} may have been paid for without telling tokens: avg_retry_tokens is a minimum."
        )
    unpriced = tokens.filter((pl.col("ok_trials") > 0) & pl.col("avg_cost_usd").is_null())
    if unpriced.height:
        found.append(f"Cost is unknown, for want of prices or usage: {', '.join(unpriced['strategy'])}.")
    return found


def _ranking_notes(study: Study) -> list[str]:
    assert study.ranking is not None
    ranking = study.ranking
    weighting = ranking.options.weighting
    ties = {"half": "half a win for both", "drop": "dropped", "davidson": "modelled (Davidson)"}[
        weighting.ties
    ]
    weight = {
        "task": "every task weighs the same",
        "comparison": "every comparison weighs the same",
        "ranking": "a comparison out of a ranking of k weighs 1/(k-1)",
    }[weighting.weight]
    zero = "their mean is 1000" if ranking.options.anchor is None else f"{ranking.options.anchor} is at 1000"
    found = [
        f"Elo from {counted(ranking.n_tasks, 'task')}; {weight}; {zero}.",
        f"Ties: {ties}; {_percent(ranking.cells.tie_share)} of the comparisons are ties.",
        f"Intervals: {_percent(ranking.options.level)}, {_method(ranking)}.",
    ]
    if _order_is_success(study):
        found.append("With complete right-or-wrong outcomes the order by Elo is the order by success rate.")
    return found


def _method(ranking: Ranking) -> str:
    if ranking.options.standard_errors == "plain":
        return "as if all comparisons were independent"
    if ranking.influence is None:
        return "none, since fewer than two tasks tell strategies apart"
    return "jackknife over tasks" if ranking.jackknifed else "clustered by task"


def _order_is_success(study: Study) -> bool:
    weighting = study.options.weighting
    return (
        study.from_outcomes
        and weighting.ties == "half"
        and weighting.weight == "task"
        and not study.trials["score"].is_not_null().any()
        and study.trials["confirmed_success"].null_count() == 0
        and study.ranking is not None
        and len(np.unique(study.ranking.cells_per_task)) == 1
    )


def _missing_notes(study: Study) -> list[str]:
    missing = study.trials.filter(~pl.col("answered"))
    unjudged = study.trials.filter(
        pl.col("answered") & pl.col("confirmed_success").is_null() & pl.col("score").is_null()
    )
    silent = study.trials.filter(pl.col("output").fill_null("") == "").height
    found = []
    if "judges" in study.tables and silent:
        found.append(f"Not judged: {counted(silent, 'trial')} without an answer.")
    if missing.height:
        by_status = missing.group_by("status").len().sort("status")
        listed = ", ".join(f"{count} {status}" for status, count in by_status.iter_rows())
        found.append(
            f"Left out: {counted(missing.height, 'trial')} without an answer ({listed}): missing, not failed."
        )
    if unjudged.height and study.from_outcomes:
        found.append(
            f"Not compared: {counted(unjudged.height, 'answered trial')} without a verdict, whose tokens count."
        )
    return found


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f}".rstrip("0").rstrip(".") + " %"
