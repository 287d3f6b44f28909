"""The scaling table: what each strategy costs in tokens, what it is worth in Elo, and the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.report.columns import UNKNOWN
from analysis.safetext import markdown_cell
from analysis.study import Study

HEADERS = (
    "Strategy",
    "OK trials",
    "OK calls",
    "Success",
    "Avg total tokens",
    "Cross-task Elo",
    "Elo / 1K",
    "Marginal Elo / 1K",
    "Verdict",
)


@dataclass(frozen=True, kw_only=True)
class ScalingRow:
    """One strategy of the scaling table; None is unknown."""

    strategy: str
    ok_trials: int
    ok_calls: int
    success_rate: float | None
    avg_total_tokens: float | None
    elo: float | None
    elo_low: float | None
    elo_high: float | None
    elo_per_1k: float | None
    marginal_elo_per_1k: float | None
    assessment: str | None
    more_tasks: int | None
    recommended: bool

    @property
    def verdict(self) -> str:
        """The assessment in words."""
        parts = [self.assessment or ""]
        if self.more_tasks:
            number = "over 10,000" if self.more_tasks > 10_000 else f"about {self.more_tasks:,}"
            parts[0] += f" ({number} more tasks)"
        if self.recommended:
            parts.append("recommended")
        return ", ".join(part for part in parts if part) or UNKNOWN

    def texts(self) -> tuple[str, ...]:
        """The row as text, one for each of `HEADERS`; not yet escaped for any medium."""
        return (
            self.strategy,
            f"{self.ok_trials:,}",
            f"{self.ok_calls:,}",
            UNKNOWN if self.success_rate is None else f"{100 * self.success_rate:.1f} %",
            _number(self.avg_total_tokens, ",.1f"),
            self._elo(),
            _number(self.elo_per_1k, ",.1f"),
            _number(self.marginal_elo_per_1k, "+,.2f"),
            self.verdict,
        )

    def _elo(self) -> str:
        if self.elo is None:
            return UNKNOWN
        if self.elo_low is None or self.elo_high is None:
            return f"{self.elo:,.1f}"
        return f"{self.elo:,.1f} ({_limit(self.elo_low)} to {_limit(self.elo_high)})"


def scaling_rows(study: Study) -> tuple[ScalingRow, ...]:
    """The rows by average tokens, the cheapest first."""
    tables = study.tables
    others = (
        tables["strategy_tokens"].select("strategy", "ok_trials", "ok_calls"),
        tables["elo_table"].select("strategy", "elo_low", "elo_high"),
        study.success,
    )
    joined = tables["elo_per_token"]
    for other in others:
        joined = joined.join(other, on="strategy", how="left", maintain_order="left")
    fields = list(ScalingRow.__dataclass_fields__)
    return tuple(ScalingRow(**row) for row in joined.select(fields).iter_rows(named=True))


def scaling_markdown(
    study: Study, *, notes: Sequence[str], warnings: Sequence[str], simulated: bool = False
) -> str:
    """The table as Markdown, with how it was made and what to be careful about."""
    lines = ["# Scaling table", ""]
    if simulated:
        lines += [f"> **{SIMULATED}**", ""]
    lines += ["| " + " | ".join(HEADERS) + " |", "|---" + "|---:" * (len(HEADERS) - 2) + "|---|"]
    lines += [
        "| " + " | ".join(markdown_cell(text) for text in row.texts()) + " |" for row in scaling_rows(study)
    ]
    lines += _section("Notes", notes) + _section("Warnings", warnings)
    return "\n".join(lines) + "\n"


SIMULATED = (
    "Simulated answers: they come from a simulated gateway with made-up models, so these numbers say nothing "
    "about any real model."
)


def _section(title: str, sentences: Sequence[str]) -> list[str]:
    if not sentences:
        return []
    return ["", f"## {title}", "", *(f"- {markdown_cell(sentence)}" for sentence in sentences)]


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def _limit(value: float) -> str:
    return f"{value:,.1f}" if math.isfinite(value) else "open"
