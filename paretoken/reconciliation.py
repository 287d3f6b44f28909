"""A provider's bill against the ledger of a run, by day and model.

Ledger rows that say their usage must be on the bill. A difference counts as explained where it is exactly, or at the
most, what the bill must or may have besides: calls of unknown outcome or usage, failed requests that are counted,
another key, another run, calls around midnight. What would be exactly the retries, duplicates or errors is said too,
but is no explanation: they were paid, or they were not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import combinations
from math import inf

from db.billable import Billable, Ledger
from paretoken.bills import Charge

_SURE = ("used", "retry", "unused", "error")
_HINTS = {
    "retry": "its retries",
    "unused": "its answers that were not used",
    "error": "its errors that told usage",
}
_MOST_REASONS = 8
# Sums of floats in another order.
_FLOAT_USD = 1e-9


@dataclass(frozen=True, kw_only=True)
class Amount:
    """What was used, or the difference of two such."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def plus(self, other: "Amount", sign: int = 1) -> "Amount":
        return Amount(
            requests=self.requests + sign * other.requests,
            input_tokens=self.input_tokens + sign * other.input_tokens,
            output_tokens=self.output_tokens + sign * other.output_tokens,
            cost_usd=self.cost_usd + sign * other.cost_usd,
        )


@dataclass(frozen=True, kw_only=True)
class Line:
    """One day and model, or all days of a model."""

    day: date | None
    model: str
    bill: Amount
    ledger: Amount
    difference: Amount
    """Bill minus ledger."""
    verdict: str
    """`equal`, `explained` or `differs`"""
    because: Sequence[str]
    """What explains it; of a line that differs: what it would be exactly."""
    costs_compared: bool


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """All lines, and what of the bill is not about this run."""

    lines: Sequence[Line]
    left_out_lines: int
    left_out_requests: int
    left_out_models: Sequence[str]

    @property
    def passed(self) -> bool:
        return all(line.verdict != "differs" for line in self.lines)


@dataclass(frozen=True, kw_only=True)
class _Reason:
    """Something that changes what the bill says by exactly this."""

    says: str
    amount: Amount
    sign: int


@dataclass(frozen=True, kw_only=True)
class _Slack:
    """Something that may change it by up to this, in either direction."""

    says: str
    more: Amount = Amount()
    less: Amount = Amount()
    tokens_more: int = 0
    """Most input and output tokens together."""


def reconcile(charges: Iterable[Charge], ledger: Ledger) -> Reconciliation:
    """Compare; `ledger.others` is asked only where something would differ without them."""
    charges = list(charges)
    days = {part.day for part in ledger.run}
    models = {part.model for part in ledger.run}
    own = [charge for charge in charges if charge.day in days and charge.model in models]
    strange = [charge for charge in charges if charge.day not in days or charge.model not in models]
    priced = any(charge.cost_usd is not None for charge in own)
    lines = list(_lines(own, ledger.run, {}, priced))
    if any(line.verdict == "differs" for line in lines):
        others = ledger.others()
        if others:
            lines = list(_lines(own, ledger.run, others, priced))
    return Reconciliation(
        lines=lines,
        left_out_lines=len(strange),
        left_out_requests=sum(charge.requests for charge in strange),
        left_out_models=sorted({charge.model for charge in strange} - models),
    )


def _lines(
    charges: Sequence[Charge],
    parts: Sequence[Billable],
    others: Mapping[str, Sequence[Billable]],
    priced: bool,
) -> Iterator[Line]:
    keys = {(part.day, part.model) for part in parts} | {(charge.day, charge.model) for charge in charges}
    for day, model in sorted(keys):
        eve = day - timedelta(days=1)
        yield _line(
            day,
            model,
            [charge for charge in charges if (charge.day, charge.model) == (day, model)],
            [part for part in parts if (part.day, part.model) == (day, model)],
            others={
                name: [part for part in found if (part.day, part.model) == (day, model)]
                for name, found in others.items()
            },
            priced=priced,
            before=[part for part in parts if (part.day, part.model) == (eve, model) and part.late],
        )
    # Midnight moves calls from one day to the next; in all days together it moves nothing.
    for model in sorted({part.model for part in parts if part.late}):
        yield _line(
            None,
            model,
            [charge for charge in charges if charge.model == model],
            [part for part in parts if part.model == model],
            others={name: [part for part in found if part.model == model] for name, found in others.items()},
            priced=priced,
            before=None,
        )


def _line(
    day: date | None,
    model: str,
    charges: Sequence[Charge],
    parts: Sequence[Billable],
    *,
    others: Mapping[str, Sequence[Billable]],
    priced: bool,
    before: Sequence[Billable] | None,
) -> Line:
    bill = _billed(charges)
    ledger = _sum(part for part in parts if part.what in _SURE)
    unpriced = any(part.unpriced_calls for part in parts if part.what in _SURE)
    with_costs = priced and not unpriced and all(charge.cost_usd is not None for charge in charges)
    rounding = sum(charge.rounding_usd for charge in charges) + _FLOAT_USD * max(1.0, ledger.cost_usd)
    difference = bill.plus(ledger, -1)
    verdict, because = _judged(
        difference,
        reasons=_reasons(parts, others),
        hints=_hints(parts),
        slacks=_slacks(parts, before),
        tolerance_usd=rounding if with_costs else inf,
    )
    return Line(
        day=day,
        model=model,
        bill=bill,
        ledger=ledger,
        difference=difference,
        verdict=verdict,
        because=because,
        costs_compared=with_costs,
    )


def _billed(charges: Sequence[Charge]) -> Amount:
    return Amount(
        requests=sum(charge.requests for charge in charges),
        input_tokens=sum(charge.input_tokens for charge in charges),
        output_tokens=sum(charge.output_tokens for charge in charges),
        cost_usd=sum(charge.cost_usd or 0.0 for charge in charges),
    )


def _sum(parts: Iterable[Billable]) -> Amount:
    parts = list(parts)
    return Amount(
        requests=sum(part.calls for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cost_usd=sum(part.cost_usd for part in parts),
    )


def _reasons(parts: Sequence[Billable], others: Mapping[str, Sequence[Billable]]) -> list[_Reason]:
    """What a bill may well have or lack."""
    found = []
    failed = _sum(part for part in parts if part.what == "failed")
    if failed.requests:
        found.append(_Reason(says=f"it counts {failed.requests:,} failed requests", amount=failed, sign=1))
    keys = sorted({part.key_fingerprint for part in parts})
    for key in keys if len(keys) > 1 else ():
        amount = _sum(part for part in parts if part.key_fingerprint == key and part.what in _SURE)
        found.append(
            _Reason(says=f"it lacks the {amount.requests:,} calls with the key {key}", amount=amount, sign=-1)
        )
    for name, theirs in others.items():
        amount = _sum(part for part in theirs if part.what in _SURE)
        if amount.requests:
            found.append(
                _Reason(says=f"it has the {amount.requests:,} calls of run {name} too", amount=amount, sign=1)
            )
    return found[:_MOST_REASONS]


def _hints(parts: Sequence[Billable]) -> list[_Reason]:
    found = []
    for what, name in _HINTS.items():
        amount = _sum(part for part in parts if part.what == what)
        if amount.requests:
            found.append(
                _Reason(says=f"this would be exactly {name} ({amount.requests:,})", amount=amount, sign=-1)
            )
    return found


def _slacks(parts: Sequence[Billable], before: Sequence[Billable] | None) -> list[_Slack]:
    found = []
    unsaid = [part for part in parts if part.what == "unsaid"]
    if unsaid:
        calls = sum(part.calls for part in unsaid)
        costs = [part.bound_cost_usd for part in unsaid]
        bound = sum(part.bound_tokens for part in unsaid)
        cost = inf if None in costs else sum(cost for cost in costs if cost is not None)
        found.append(
            _Slack(
                says=f"up to {calls:,} calls whose outcome or usage is unknown",
                more=Amount(requests=calls, input_tokens=bound, output_tokens=bound, cost_usd=cost),
                tokens_more=bound,
            )
        )
    if before is not None:
        early, late = _sum(before), _sum(part for part in parts if part.late)
        if early.requests or late.requests:
            found.append(
                _Slack(
                    says="calls that ended after midnight",
                    more=early,
                    less=late,
                    tokens_more=early.input_tokens + early.output_tokens,
                )
            )
    return found


def _judged(
    difference: Amount,
    *,
    reasons: Sequence[_Reason],
    hints: Sequence[_Reason],
    slacks: Sequence[_Slack],
    tolerance_usd: float,
) -> tuple[str, list[str]]:
    """The fewest reasons that leave nothing; else the fewest that leave what is possible; else hints."""
    for allowed in ([], slacks) if slacks else ([],):
        for chosen in _subsets(reasons):
            if _possible(_without(difference, chosen), allowed, tolerance_usd):
                says = [reason.says for reason in chosen] + [slack.says for slack in allowed]
                return ("explained" if says else "equal"), says
    for chosen in _subsets(hints):
        if chosen and _possible(_without(difference, chosen), [], tolerance_usd):
            return "differs", [reason.says for reason in chosen]
    return "differs", []


def _subsets(reasons: Sequence[_Reason]) -> Iterator[tuple[_Reason, ...]]:
    for size in range(len(reasons) + 1):
        yield from combinations(reasons, size)


def _without(difference: Amount, chosen: Iterable[_Reason]) -> Amount:
    for reason in chosen:
        difference = difference.plus(reason.amount, -reason.sign)
    return difference


def _possible(rest: Amount, slacks: Sequence[_Slack], tolerance_usd: float) -> bool:
    more = less = Amount()
    for slack in slacks:
        more, less = more.plus(slack.more), less.plus(slack.less)
    tokens = rest.input_tokens + rest.output_tokens
    return (
        -less.requests <= rest.requests <= more.requests
        and -less.input_tokens <= rest.input_tokens <= more.input_tokens
        and -less.output_tokens <= rest.output_tokens <= more.output_tokens
        and tokens <= sum(slack.tokens_more for slack in slacks)
        and -less.cost_usd - tolerance_usd <= rest.cost_usd <= more.cost_usd + tolerance_usd
    )
