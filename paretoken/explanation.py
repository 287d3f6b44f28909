"""What may explain a difference between a provider's bill and the ledger, and whether it does.

Reasons change what the bill says by exactly their amount: another key, another run. Slacks change it by up to
theirs: failed requests that are counted, calls of unknown usage, calls around midnight. A difference is explained by
the fewest slacks, and with them the fewest reasons, that leave nothing else.

No part of a slack comes without its request. The ledger's side of a line counts neither a call of unknown usage nor a
failed one, so the bill has one request more for each that it charges, also where the answer is known to have come.
Of n requests that the bill has beyond what reasons say, at most n are calls of unknown usage, and these used at the
most n times the largest bound of any. Calls that the bill lacks, because they were put on the next day, make room
for as many.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import TypeVar

from analysis.wording import counted
from db.billable import Billable

SURE = ("used", "retry", "unused", "error")
"""Kinds of calls that said their usage: what the ledger's side of a line is the sum of."""
_HINTS = {
    "retry": "its retries",
    "unused": "its answers that were not used",
    "error": "its errors that told usage",
}
# Every choice of them is tried.
_MOST_REASONS = 8
_Item = TypeVar("_Item")


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


def total(parts: Iterable[Billable]) -> Amount:
    """The sum of what these calls said."""
    parts = list(parts)
    return Amount(
        requests=sum(part.calls for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cost_usd=sum(part.cost_usd for part in parts),
    )


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Something that changes what the bill says by exactly this."""

    says: str
    amount: Amount
    sign: int


@dataclass(frozen=True, kw_only=True)
class Slack:
    """Something that may change it by up to this, in either direction."""

    says: str
    more: Amount = Amount()
    less: Amount = Amount()
    tokens_more: int = 0
    """Most input and output tokens together."""
    largest_tokens: int = 0
    """Most that one request of `more` can have used."""
    largest_cost_usd: float = 0.0

    def tokens_of(self, requests: int) -> int:
        """Most tokens, input and output together, that come with so many requests."""
        return min(self.tokens_more, requests * self.largest_tokens)

    def cost_of(self, requests: int) -> float:
        """USD likewise; infinite where no bound is known."""
        return min(self.more.cost_usd, requests * self.largest_cost_usd) if requests else 0.0


def reasons(parts: Sequence[Billable], others: Mapping[str, Sequence[Billable]]) -> list[Reason]:
    """What a bill may well have or lack; `others` are the calls of other runs, by name."""
    found = []
    keys = sorted({part.key_fingerprint for part in parts})
    for key in keys if len(keys) > 1 else ():
        amount = total(part for part in parts if part.key_fingerprint == key and part.what in SURE)
        found.append(
            Reason(
                says=f"it lacks {counted(amount.requests, 'call')} with the key {key}", amount=amount, sign=-1
            )
        )
    for name, theirs in others.items():
        amount = total(part for part in theirs if part.what in SURE)
        if amount.requests:
            found.append(
                Reason(
                    says=f"it has {counted(amount.requests, 'call')} of run {name} too", amount=amount, sign=1
                )
            )
    return found


def hints(parts: Sequence[Billable]) -> list[Reason]:
    """What explains nothing, and is said where the difference is exactly this: these calls were paid."""
    found = []
    for what, name in _HINTS.items():
        amount = total(part for part in parts if part.what == what)
        if amount.requests:
            found.append(
                Reason(says=f"this would be exactly {name} ({amount.requests:,})", amount=amount, sign=-1)
            )
    return found


def slacks(parts: Sequence[Billable], before: Sequence[Billable] | None) -> list[Slack]:
    """What may be so; `before` are calls of the day before that ended on this one, None for all days together."""
    both = [*parts, *(before or ())]
    found = [*_failed(both), *_unsaid([part for part in both if part.what == "unsaid"])]
    if before is not None:
        found += _midnight(before, [part for part in parts if part.late])
    return found


def _failed(parts: Iterable[Billable]) -> Iterator[Slack]:
    failed = sum(part.calls for part in parts if part.what == "failed")
    if failed:
        yield Slack(says=f"it counts up to {counted(failed, 'failed request')}", more=Amount(requests=failed))


def _unsaid(unsaid: Sequence[Billable]) -> Iterator[Slack]:
    if not unsaid:
        return
    calls = sum(part.calls for part in unsaid)
    bound = sum(part.bound_tokens for part in unsaid)
    yield Slack(
        says=f"up to {counted(calls, 'call')} of unknown outcome or usage",
        more=Amount(
            requests=calls,
            input_tokens=bound,
            output_tokens=bound,
            cost_usd=sum(_known_or_infinite(part.bound_cost_usd) for part in unsaid),
        ),
        tokens_more=bound,
        largest_tokens=max(part.largest_tokens for part in unsaid),
        largest_cost_usd=max(_known_or_infinite(part.largest_cost_usd) for part in unsaid),
    )


def _known_or_infinite(cost_usd: float | None) -> float:
    return inf if cost_usd is None else cost_usd


def _midnight(before: Sequence[Billable], late: Sequence[Billable]) -> Iterator[Slack]:
    early, later = (total(part for part in parts if part.what in SURE) for parts in (before, late))
    if early.requests or later.requests:
        tokens = early.input_tokens + early.output_tokens
        yield Slack(
            says="calls that ended after midnight",
            more=early,
            less=later,
            tokens_more=tokens,
            largest_tokens=tokens,
            largest_cost_usd=early.cost_usd,
        )


def judged(
    difference: Amount,
    *,
    reasons: Sequence[Reason],
    hints: Sequence[Reason],
    slacks: Sequence[Slack],
    tolerance_usd: float,
) -> tuple[str, list[str]]:
    """The verdict on a line, and what it is because of."""
    for allowed in _subsets(slacks):
        for chosen in _subsets(reasons[:_MOST_REASONS]):
            if _possible(_without(difference, chosen), allowed, tolerance_usd):
                says = [reason.says for reason in chosen] + [slack.says for slack in allowed]
                return ("explained" if says else "equal"), says
    untried = len(reasons) - _MOST_REASONS
    left_out = [f"{counted(untried, 'further reason')} not tried: calls with other keys, or of other runs"]
    more = left_out if untried > 0 else []
    for chosen in _subsets(hints):
        if chosen and _possible(_without(difference, chosen), (), tolerance_usd):
            return "differs", [reason.says for reason in chosen] + more
    return "differs", more


def _subsets(items: Sequence[_Item]) -> Iterator[tuple[_Item, ...]]:
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def _without(difference: Amount, chosen: Iterable[Reason]) -> Amount:
    for reason in chosen:
        difference = difference.plus(reason.amount, -reason.sign)
    return difference


def _possible(rest: Amount, slacks: Sequence[Slack], tolerance_usd: float) -> bool:
    more = less = Amount()
    for slack in slacks:
        more, less = more.plus(slack.more), less.plus(slack.less)
    if not -less.requests <= rest.requests <= more.requests:
        return False
    # Most requests that can have come, and gone: tokens and money come and go with them alone.
    come, gone = rest.requests + less.requests, more.requests - rest.requests
    lacked = less if gone else Amount()
    return (
        -lacked.input_tokens <= rest.input_tokens <= more.input_tokens
        and -lacked.output_tokens <= rest.output_tokens <= more.output_tokens
        and rest.input_tokens + rest.output_tokens <= sum(slack.tokens_of(come) for slack in slacks)
        and -lacked.cost_usd - tolerance_usd
        <= rest.cost_usd
        <= sum(slack.cost_of(come) for slack in slacks) + tolerance_usd
    )
