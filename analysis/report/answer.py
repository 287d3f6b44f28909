"""The answer in a few sentences: which strategy to use, why, and what is not settled."""

from collections.abc import Sequence

from analysis.report.scaling_table import ScalingRow
from analysis.scaling import Assessment
from analysis.study import Study

MOST_NAMES = 5
OPEN: Assessment = "cannot tell yet"
WORTH_IT: Assessment = "worth it"


def answer(study: Study, rows: Sequence[ScalingRow]) -> tuple[str, ...]:
    """Sentences for a reader who reads nothing else; not yet escaped for any medium.

    Args:
        rows: the scaling table, the cheapest strategy first.
    """
    best = next((row for row in rows if row.recommended), None)
    if best is None:
        why = study.refusal or "for no strategy are both tokens and Elo known."
        return (f"No strategy can be recommended: {why}",)
    return (_choice(study, rows, best), *_price(study, best), *_frontier(study, best), *_unsettled(rows))


def _choice(study: Study, rows: Sequence[ScalingRow], best: ScalingRow) -> str:
    threshold = f"{study.options.threshold:g} Elo per 1,000 tokens"
    start = f"Use {best.strategy}: " + ("" if _sure(rows, best) else "by the best estimate ")
    if any(row.assessment for row in rows) and all(row.assessment in (None, OPEN) for row in rows):
        start = f"Not settled; by the best estimate use {best.strategy}: "
    if best.strategy == rows[0].strategy:
        return f"{start}no step to a strategy with more tokens buys {threshold}."
    return f"{start}it is the last strategy whose extra tokens still buy {threshold}."


def _sure(rows: Sequence[ScalingRow], best: ScalingRow) -> bool:
    """Whether every step up to the best strategy is surely worth it, and surely none after it."""
    place = rows.index(best)
    up_to, after = rows[: place + 1], rows[place + 1 :]
    return all(row.assessment in (None, WORTH_IT) for row in up_to) and all(
        row.assessment not in (OPEN, WORTH_IT) for row in after
    )


def _price(study: Study, best: ScalingRow) -> list[str]:
    cost = dict(study.tables["strategy_tokens"].select("strategy", "avg_cost_usd").iter_rows())[best.strategy]
    parts = [
        None
        if best.success_rate is None
        else f"succeeds in {100 * best.success_rate:.1f} % of its judged trials",
        None if best.avg_total_tokens is None else f"uses {best.avg_total_tokens:,.1f} tokens per trial",
        "costs an unknown amount" if cost is None else f"costs {cost:,.6g} USD per trial",
    ]
    told = [part for part in parts if part]
    return [f"It {', '.join(told[:-1])} and {told[-1]}." if len(told) > 1 else f"It {told[0]}."]


def _frontier(study: Study, best: ScalingRow) -> list[str]:
    row = next(
        row for row in study.tables["pareto"].iter_rows(named=True) if row["strategy"] == best.strategy
    )
    if row["cost_usd"] is None or row["p_on_frontier"] is None:
        return []
    where = "is on" if row["on_frontier"] else "is not on"
    return [
        f"It {where} the frontier of cost and success, and is on it in {100 * row['p_on_frontier']:.1f} % of the "
        "resampled sets of tasks."
    ]


def _unsettled(rows: Sequence[ScalingRow]) -> list[str]:
    open_ones = [row for row in rows if row.assessment == OPEN]
    if not open_ones:
        return []
    names = ", ".join(row.strategy for row in open_ones[:MOST_NAMES])
    names += f" and {len(open_ones) - MOST_NAMES:,} more" if len(open_ones) > MOST_NAMES else ""
    needed = [row.more_tasks for row in open_ones if row.more_tasks]
    more = (
        f"; about {max(needed):,} more tasks would settle all of it"
        if needed and max(needed) <= 10_000
        else ""
    )
    return [f"Not settled by these tasks is the step to {names}{more}."]
