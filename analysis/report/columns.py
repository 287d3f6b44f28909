"""How the columns of the tables are headed and formatted where people read them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

UNKNOWN = "–"


@dataclass(frozen=True, kw_only=True)
class Column:
    """Heading and form of a column; `docs/outputs.md` says what it means."""

    title: str
    """With the unit, where there is one."""
    form: str = ""
    """A format specification for numbers; `%1` for a share in percent with one decimal. Empty: as text."""

    def text(self, value: object) -> str:
        """One value as a reader sees it; unknown is a dash, a limit that does not exist is `open`."""
        if value is None or value == "":
            return UNKNOWN
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float) and not math.isfinite(value):
            return "open"
        if not self.form or not isinstance(value, int | float):
            return str(value)
        return f"{100 * value:,.1f} %" if self.form == "%1" else format(value, self.form)


_COUNT, _TOKENS, _ELO, _USD, _PER_1K = ",d", ",.1f", ",.1f", ",.6g", "+,.2f"


def _c(title: str, form: str = "") -> Column:
    return Column(title=title, form=form)


COLUMNS: Mapping[str, Column] = {
    "agreement": _c("Agreement with itself", "%1"),
    "assessment": _c("Verdict on the step"),
    "avg_cost_usd": _c("USD per trial", _USD),
    "avg_first_tokens": _c("First-try tokens per trial", _TOKENS),
    "avg_input_tokens": _c("Input tokens per trial", _TOKENS),
    "avg_output_tokens": _c("Output tokens per trial", _TOKENS),
    "avg_retry_tokens": _c("Retry tokens per trial", _TOKENS),
    "avg_total_tokens": _c("Tokens per trial", _TOKENS),
    "best": _c("Best here"),
    "bucket": _c("Tokens of a trial"),
    "calls": _c("Calls", _COUNT),
    "category": _c("Category"),
    "confirmed_successes": _c("Confirmed successes", _COUNT),
    "cost_usd": _c("USD", _USD),
    "davidson": _c("Davidson (Elo)", _ELO),
    "dearest_share": _c("Dearest share of tasks", "%1"),
    "difference": _c("Difference (Elo)", _ELO),
    "elo": _c("Elo", _ELO),
    "elo_conditional": _c("Elo on its unit", _ELO),
    "elo_high": _c("Elo, upper limit", _ELO),
    "elo_low": _c("Elo, lower limit", _ELO),
    "elo_per_1k": _c("Elo per 1K tokens", ",.1f"),
    "elo_population": _c("Elo over all units", _ELO),
    "elo_se": _c("Standard error (Elo)", _ELO),
    "failed": _c("Calls without a reply", _COUNT),
    "family": _c("Family"),
    "family_marginal_elo_per_1k": _c("Elo per extra 1K in its family", _PER_1K),
    "from_usd": _c("From (USD)", _USD),
    "gain_per_1k": _c("Elo over the baseline per extra 1K", _PER_1K),
    "judge": _c("Judge"),
    "judged": _c("Judged trials", _COUNT),
    "judgings": _c("Questions", _COUNT),
    "least_usd": _c("Each costs at least (USD)", _USD),
    "marginal_elo_per_1k": _c("Marginal Elo per extra 1K", _PER_1K),
    "marginal_high": _c("Marginal, upper limit", _PER_1K),
    "marginal_low": _c("Marginal, lower limit", _PER_1K),
    "max_tokens": _c("Most tokens", _COUNT),
    "mean_cost_usd": _c("Mean USD per task", _USD),
    "mean_elo": _c("Mean Elo of its strategies", _ELO),
    "mean_tokens": _c("Mean tokens per task", _TOKENS),
    "median_cost_usd": _c("Median USD per task", _USD),
    "median_tokens": _c("Median tokens per task", _TOKENS),
    "median_total_tokens": _c("Median tokens", _TOKENS),
    "min_tokens": _c("Fewest tokens", _COUNT),
    "more_tasks": _c("More tasks to settle it", _COUNT),
    "n_tasks": _c("Tasks", _COUNT),
    "net_elo": _c("Elo beyond the price", "+,.1f"),
    "ok_calls": _c("OK calls", _COUNT),
    "ok_trials": _c("OK trials", _COUNT),
    "on_frontier": _c("On the frontier"),
    "on_hull": _c("On its hull"),
    "on_token_frontier": _c("On the token frontier"),
    "on_token_hull": _c("On the token hull"),
    "opponent": _c("Against"),
    "p_adjusted": _c("p, all pairs looked at", ".3f"),
    "p_value": _c("p, this pair alone", ".3f"),
    "p_above_threshold": _c("Surely above the threshold", "%1"),
    "p_on_frontier": _c("How surely", "%1"),
    "p_on_token_frontier": _c("How surely (tokens)", "%1"),
    "part": _c("Part"),
    "pooled": _c("All comparisons equal (Elo)", _ELO),
    "position_bias": _c("Position bias (0 is none)", "+,.3f"),
    "rank": _c("Rank", _COUNT),
    "rank_high": _c("Worst rank", _COUNT),
    "rank_low": _c("Best rank", _COUNT),
    "ranking_weight": _c("Rankings equal (Elo)", _ELO),
    "recommended": _c("Recommended"),
    "reference_cost_usd": _c("Reference (USD)", _USD),
    "se": _c("Standard error (Elo)", _ELO),
    "sigma_u": _c("Spread of effects (logits)", ".3f"),
    "sigma_u_high": _c("Spread, upper limit", ".3f"),
    "sigma_u_low": _c("Spread, lower limit", ".3f"),
    "share_of_cost": _c("Share of cost", "%1"),
    "share_of_tokens": _c("Share of tokens", "%1"),
    "split": _c("Divided by"),
    "strategy": _c("Strategy"),
    "success_rate": _c("Success", "%1"),
    "task_equal": _c("All tasks equal (Elo)", _ELO),
    "task_id": _c("Task"),
    "tasks": _c("Tasks", _COUNT),
    "tasks_above_reference": _c("Tasks above it", _COUNT),
    "tasks_needed": _c("Tasks to find it", _COUNT),
    "threshold": _c("Elo that 1K tokens must buy", ",g"),
    "tie_share": _c("Ties", "%1"),
    "tier": _c("Tier", _COUNT),
    "ties": _c("Ties", _COUNT),
    "ties_dropped": _c("Ties left out (Elo)", _ELO),
    "to_usd": _c("To (USD)", _USD),
    "tokens": _c("Tokens", ",.10g"),
    "trials": _c("Trials", _COUNT),
    "two_stage": _c("Two-stage (Elo)", _ELO),
    "unit": _c("Task or category"),
    "unknown_calls": _c("Calls of unknown tokens", _COUNT),
    "unknown_cost": _c("Trials of unknown cost", _COUNT),
    "unknown_tokens": _c("Trials of unknown tokens", _COUNT),
    "unknown_usage": _c("Trials of unknown tokens", _COUNT),
    "unparsable": _c("Replies that cannot be read", _COUNT),
    "verdicts": _c("Verdicts", _COUNT),
    "win_rate": _c("Won", "%1"),
    "win_share": _c("Won", "%1"),
}
"""By the column's name in the CSV files."""
