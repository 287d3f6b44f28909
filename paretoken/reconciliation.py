"""A provider's bill against the ledger of a run, by day and model.

Ledger rows that say their usage must be on the bill. A difference counts as explained where it is exactly, or at the
most, what the bill must or may have besides: `paretoken.explanation`. What would be exactly the retries, duplicates
or errors is said too, but is no explanation: they were paid, or they were not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import inf

from db.billable import Billable, Ledger
from paretoken.bills import Charge
from paretoken.explanation import SURE, Amount, hints, judged, reasons, slacks, total

# Sums of floats in another order.
_FLOAT_USD = 1e-9
_DAY = timedelta(days=1)


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
    left_out_runs: int
    """Runs that may stand on the bill too and were not looked at."""

    @property
    def passed(self) -> bool:
        return all(line.verdict != "differs" for line in self.lines)


def reconcile(charges: Iterable[Charge], ledger: Ledger) -> Reconciliation:
    """Compare; `ledger.others` is asked only where something would differ without them."""
    charges = list(charges)
    days = {part.day for part in ledger.run}
    models = {part.model for part in ledger.run}
    # A bill may go by the end of a call.
    ended = {(part.day + _DAY, part.model) for part in ledger.run if part.late}
    own: list[Charge] = []
    strange: list[Charge] = []
    for charge in charges:
        ours = charge.model in models and (charge.day in days or (charge.day, charge.model) in ended)
        (own if ours else strange).append(charge)
    priced = any(charge.cost_usd is not None for charge in own)
    lines = list(_lines(own, ledger.run, {}, priced))
    left_out_runs = 0
    if any(line.verdict == "differs" for line in lines):
        others = ledger.others()
        left_out_runs = others.left_out
        if others.runs:
            lines = list(_lines(own, ledger.run, others.runs, priced))
    return Reconciliation(
        lines=lines,
        left_out_lines=len(strange),
        left_out_requests=sum(charge.requests for charge in strange),
        left_out_models=sorted({charge.model for charge in strange} - models),
        left_out_runs=left_out_runs,
    )


def _lines(
    charges: Sequence[Charge],
    parts: Sequence[Billable],
    others: Mapping[str, Sequence[Billable]],
    priced: bool,
) -> Iterator[Line]:
    keys = {(part.day, part.model) for part in parts} | {(charge.day, charge.model) for charge in charges}
    for day, model in sorted(keys):
        eve = day - _DAY
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
    ledger = total(part for part in parts if part.what in SURE)
    unpriced = any(part.unpriced_calls for part in parts if part.what in SURE)
    with_costs = priced and not unpriced and all(charge.cost_usd is not None for charge in charges)
    rounding = sum(charge.rounding_usd for charge in charges) + _FLOAT_USD * max(1.0, ledger.cost_usd)
    difference = bill.plus(ledger, -1)
    verdict, because = judged(
        difference,
        reasons=reasons(parts, others),
        hints=hints(parts),
        slacks=slacks(parts, before),
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
