"""The diagnostics in plain words, and how each figure is defined."""

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.report.columns import UNKNOWN
from analysis.study import Study

DEFINITIONS: Mapping[str, str] = {
    "Tokens per trial": "All calls of a trial whose answers were used, summed; averaged over a task's repeats, "
    "then over tasks.",
    "Success": "Share of the judged trials whose answer passed the task's own checks; no model has a say in it.",
    "Elo": "Bradley-Terry strength from comparisons inside each task: 1000 + 400/ln 10 · θ, with mean 1000. 400 points "
    "are odds of 10 to 1.",
    "Interval": "Covers the true value with the stated confidence. Tasks are the unit: comparisons inside one task are "
    "not independent.",
    "Elo / 1K": "Elo divided by thousands of tokens. It depends on where Elo has its zero, so nothing is "
    "concluded from it.",
    "Marginal Elo / 1K": "From each strategy to the next by tokens: Elo more per 1,000 tokens more.",
    "Worth it": "The step surely buys more than the threshold. Diminishing: surely more Elo, and surely below the "
    "threshold. "
    "Not worth it: surely below it. Cannot tell yet: neither is sure.",
    "Frontier": "No other strategy costs no more and succeeds no less, and is better in one of the two.",
    "How surely": "Share of resampled sets of tasks in which the strategy is on the frontier.",
    "First try, rerun, waste": "Used calls of the first try; used calls of later tries; calls that were paid and "
    "not used.",
    "Prompt, context, output": "Input of a first round; input of later rounds, which carries along what came "
    "before; what the model wrote.",
    "Unknown": f"What a gateway did not report is shown as {UNKNOWN}, is never taken for 0, is left out of the "
    "average and counted.",
}


def diagnoses(study: Study) -> Iterator[tuple[str, str, str]]:
    """(what, value, what it means) for everything that `diagnostics.json` says of the ranking."""
    found = study.diagnostics
    if study.ranking is None:
        return
    yield (
        "Tasks compared",
        f"{found['tasks']:,}",
        f"{found['decisive_tasks']:,} of them tell any two strategies apart.",
    )
    if found["effective_tasks"] is not None:
        yield (
            "Effective tasks",
            f"{found['effective_tasks']:,.1f}",
            "So many tasks of equal influence would give the same certainty; far fewer than there are means that "
            "few decide.",
        )
    yield (
        "Ties",
        _percent(found["tie_share"]),
        "Share of comparisons without a winner. Many ties: harder tasks would tell more.",
    )
    yield (
        "Circles",
        _percent(found["cycle_share"]),
        "Share of the differences that no order explains (A beats B beats C beats A). Noise adds to it; a small "
        "share means nothing.",
    )
    if found["se_ratio"] is not None:
        yield (
            "Dependence inside tasks",
            f"{found['se_ratio']:.2f}",
            "How much wider the intervals are than if every comparison were independent.",
        )
    yield "Standard errors", found["standard_errors"] or "none", _METHODS[found["standard_errors"]]
    yield from _influence(found["most_influential_task"])
    if found["tiers"]:
        tiers = "; ".join(", ".join(tier) for tier in found["tiers"])
        yield "Groups", tiers, "Within a group the best one is not surely better than the others."
    for key, meaning in _OPEN.items():
        if found[key]:
            yield _OPEN_TITLES[key], ", ".join(found[key]), meaning
    converged = "yes" if found["converged"] else "no"
    yield "Fit converged", converged, f"After {found['newton_steps']} Newton steps."


def left_out(study: Study) -> str:
    """What the averages do not hold, also where it is nothing."""
    trials, summary = study.trials, study.tables["cost_summary"]
    answered = int(trials["answered"].sum())
    unknown = {
        name: summary[name][-1] if summary.height else 0 for name in ("unknown_tokens", "unknown_cost")
    }
    return (
        f"{trials.height - answered:,} of {trials.height:,} trials without an answer; of the others "
        f"{unknown['unknown_tokens']:,} of unknown tokens and {unknown['unknown_cost']:,} of unknown cost, each left "
        "out of its averages"
    )


_METHODS = {
    "clustered": "Clustered by task.",
    "jackknife": "Each task left out once: safer than the usual formula with few tasks.",
    "plain": "As if all comparisons were independent: too small.",
    None: "Too few tasks tell strategies apart.",
}
_OPEN_TITLES = {"never_lost": "Never lost", "never_won": "Never won", "left_out": "Not compared"}
_OPEN = {
    "never_lost": "How far above the others is set by the penalty alone; the interval has no upper limit.",
    "never_won": "How far below the others is set by the penalty alone; the interval has no lower limit.",
    "left_out": "No comparison that counts, so no Elo.",
}


def _influence(found: Mapping[str, Any] | None) -> Iterator[tuple[str, str, str]]:
    if found is not None:
        yield (
            "Most influential task",
            str(found["task_id"]),
            f"Without it {found['pairs_reordered']:,} pairs of strategies would change their order, and Elo would "
            f"move by up to {found['largest_elo_change']:,.1f}.",
        )


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"
