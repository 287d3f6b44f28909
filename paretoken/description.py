"""A run in words: its state, its pace, what it used and what it waits for, safe for a terminal."""

import time
from collections.abc import Mapping
from typing import Any, Literal

from analysis.safetext import terminal_text
from analysis.wording import counted
from scheduler.progress import Progress, Wait

# The pace is measured over so many looks.
_WINDOW = 20
_LEAST_MEASURED_S = 3.0
_STATES = ("ok", "failed", "over_budget", "review", "cancelled", "running", "pending")
_WAITS = {
    "hold": "the gateway asked all to wait",
    "retry": "waiting for a retry",
    "capacity": "waiting for capacity, or for a worker that has the key,",
}


class Pace:
    """What is done per time over the last looks. Unknown while the run is still getting under way."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int, int]] = []

    def add(self, *, calls: int, tokens: int) -> None:
        """The answered calls and the tokens of the run so far."""
        # Before its first answer a run starts processes and proves its key: that says nothing of its pace.
        if calls:
            self._seen = [*self._seen[-_WINDOW:], (time.monotonic(), calls, tokens)]

    @property
    def calls_per_s(self) -> float | None:
        """Answers per second; attempts that failed are not among them."""
        return self._per_s(1)

    @property
    def tokens_per_minute(self) -> float | None:
        per_s = self._per_s(2)
        return None if per_s is None else 60 * per_s

    def eta_s(self, seen: Progress) -> float | None:
        """How long the calls to come take at this pace; None where there are none, or nothing moves.

        Later rounds are not planned before the earlier ones are answered, so it is for what is known to come.
        """
        per_s = self.calls_per_s
        return seen.open_jobs / per_s if per_s and seen.open_jobs else None

    def _per_s(self, column: Literal[1, 2]) -> float | None:
        if not self._seen:
            return None
        first, last = self._seen[0], self._seen[-1]
        took_s = last[0] - first[0]
        return (last[column] - first[column]) / took_s if took_s >= _LEAST_MEASURED_S else None


def describe(seen: Progress, pace: Pace | None = None) -> list[str]:
    """The run in a few plain lines, safe for a terminal: trials, calls, pace, tokens, errors, what waits."""
    lines = [
        _counts("trials", {state: seen.trials[state] for state in _STATES if state in seen.trials}),
        *_judging(seen),
        f"calls: {seen.calls:,} done" + _ahead(seen),
        *_pace(seen, pace),
        _spent(seen),
        *_budget(seen),
    ]
    if seen.errors:
        lines.append(_counts("errors", seen.errors))
    if seen.state == "running":
        lines += [_waiting(wait) for wait in seen.waits]
    elif seen.reason:
        lines.append(f"{seen.state}: {seen.reason}")
    return [terminal_text(line) for line in lines]


def _judging(seen: Progress) -> list[str]:
    """Each judge with its bound, which is known once the trials are over, and how far it is."""
    bounds = {bound["judge"]: bound for bound in seen.judging_bounds}
    return [
        _counts(f"judge {judge}", counts) + _bound(bounds[judge])
        for judge, counts in seen.judgings.items()
        if judge in bounds
    ]


def _bound(bound: Mapping[str, Any]) -> str:
    cost = bound["most_cost_usd"]
    price = "cost unknown (no price)" if cost is None else f"at most ${cost:,.4f}"
    return f" ({counted(bound['calls'], 'call')} planned, {price})"


def _ahead(seen: Progress) -> str:
    """What is still to come, and what becomes of it now."""
    if seen.state != "running":
        return f", {seen.awaited:,} still in flight" if seen.awaited else ""
    if not seen.workers:
        return f", {seen.open_jobs:,} to come; no worker is there (yet)"
    # As of the workers' last sign of life, and of all their runs: no more than this run has.
    in_flight = min(seen.in_flight, seen.open_jobs)
    waiting = min(seen.waiting, seen.open_jobs - in_flight)
    of_them = f"{in_flight:,} in flight" + (f" and {waiting:,} waiting for capacity" if waiting else "")
    return f", {seen.open_jobs:,} to come ({of_them})"


def _waiting(wait: Wait) -> str:
    reason = f" ({wait.reason})" if wait.reason else ""
    until = f"{wait.until.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"{counted(wait.jobs, 'call')} of {wait.model}: {_WAITS[wait.why]} until {until}{reason}"


def _counts(name: str, counts: Mapping[str, int]) -> str:
    return f"{name}: " + (", ".join(f"{count:,} {what}" for what, count in counts.items()) or "none")


def _pace(seen: Progress, pace: Pace | None) -> list[str]:
    """Calls and tokens per time beside what the experiment's limits allow, and how long it goes on like this."""
    if pace is None or pace.calls_per_s is None or seen.state != "running":
        return []
    calls, tokens = pace.calls_per_s, pace.tokens_per_minute or 0
    said = f"pace: {calls:,.1f} calls/s"
    if most := seen.limits.get("requests_per_minute"):
        said += f" ({60 * calls:,.0f} of {most:,} a minute)"
    if not _nothing_known(seen):
        most = seen.limits.get("tokens_per_minute")
        said += f", {tokens:,.0f}{f' of {most:,}' if most else ''} tokens a minute"
    eta_s = pace.eta_s(seen)
    return [said if eta_s is None else f"{said}, {_duration(eta_s)} for the calls to come"]


def _budget(seen: Progress) -> list[str]:
    """What was spent and what is reserved, beside the run's budgets."""
    said = []
    if (usd := seen.budget.get("run_cost_usd")) is not None:
        said.append(f"{_cost(seen)} spent and ${seen.reserved_cost_usd:,.4f} reserved of ${usd:,.2f}")
    if (tokens := seen.budget.get("run_tokens")) is not None:
        used = "unknown" if _nothing_known(seen) else f"{seen.tokens:,}"
        said.append(f"{used} tokens used and {seen.reserved_tokens:,} reserved of {tokens:,}")
    return [f"budget: {', '.join(said)}"] if said else []


def _duration(seconds: float) -> str:
    """About how long, as people say it."""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} min"
    return f"about {minutes // 60} h {minutes % 60} min"


def _spent(seen: Progress) -> str:
    """Tokens and cost as far as they are known, and of how many calls they are not."""
    tokens = "unknown" if _nothing_known(seen) else f"{seen.input_tokens:,} in, {seen.output_tokens:,} out"
    left_out = {
        "answered": seen.unknown_usage_calls,
        # Of some the gateway may have told a part before the connection broke.
        "with an unknown outcome": seen.unknown_calls,
    }
    said = " and ".join(f"{count:,} {what}" for what, count in left_out.items() if count)
    return f"tokens: {tokens}; cost {_cost(seen)}" + (f"; calls of unknown usage: {said}" if said else "")


def _nothing_known(seen: Progress) -> bool:
    """Whether calls have used tokens, and none has said how many."""
    return not seen.tokens and bool(seen.unknown_usage_calls or seen.unknown_calls)


def _cost(seen: Progress) -> str:
    if not seen.unpriced_models and _nothing_known(seen) and not seen.cost_usd:
        return "unknown"
    if not seen.unpriced_models:
        return f"${seen.cost_usd:,.4f}"
    known = f"${seen.cost_usd:,.4f} and " if seen.cost_usd else ""
    return f"{known}unknown for {', '.join(seen.unpriced_models)} (no price)"
