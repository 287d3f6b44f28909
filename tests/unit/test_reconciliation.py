"""A bill against a ledger: what is equal, what explains a difference, what does not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

import pytest

from db.billable import Billable, Ledger, Neighbours
from paretoken.bills import Charge
from paretoken.reconciliation import Reconciliation, reconcile

DAY, NEXT = date(2026, 1, 2), date(2026, 1, 3)


def part(
    calls: int = 10, input_tokens: int = 1000, output_tokens: int = 200, cost: float = 0.5, **more: object
) -> Billable:
    values = {
        "day": DAY,
        "model": "m",
        "key_fingerprint": "k1",
        "what": "used",
        "late": False,
        "calls": calls,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cost_usd": cost,
        "unpriced_calls": 0,
        "bound_tokens": 0,
        "bound_cost_usd": None,
        "largest_tokens": 0,
        "largest_cost_usd": None,
    }
    return Billable(**values | more)


def charge(
    requests: int,
    input_tokens: int,
    output_tokens: int,
    cost: float | None = None,
    day: date = DAY,
    model: str = "m",
) -> Charge:
    return Charge(day=day, model=model, requests=requests, input_tokens=input_tokens, output_tokens=output_tokens,
                  cost_usd=cost, rounding_usd=0.00005)  # fmt: skip


def compare(
    charges: Sequence[Charge], run: Sequence[Billable], others: Mapping[str, Sequence[Billable]] | None = None
) -> Reconciliation:
    return reconcile(charges, Ledger(run=run, others=lambda: Neighbours(runs=others or {})))


USED = part()
RETRIES = part(2, 150, 30, 0.06, what="retry")
UNUSED = part(1, 90, 9, 0.02, what="unused")
ERRORS = part(1, 80, 8, 0.01, what="error")
FAILED = part(3, 0, 0, 0, what="failed", unpriced_calls=3)
LOST = part(2, 0, 0, 0, what="unsaid", unpriced_calls=2, bound_tokens=1000, bound_cost_usd=0.4,
            largest_tokens=600, largest_cost_usd=0.25)  # fmt: skip
OTHER_KEY = part(4, 400, 40, 0.2, key_fingerprint="k2")
LATE = part(1, 100, 20, 0.05, late=True)

# What the bill says, what the ledger holds besides USED, the verdict, and a word of each reason.
CASES: Mapping[str, tuple[tuple[int, int, int, float | None], list[Billable], str, list[str]]] = {
    "the same": ((10, 1000, 200, 0.5), [], "equal", []),
    "the same, retries and all": ((14, 1320, 247, 0.59), [RETRIES, UNUSED, ERRORS], "equal", []),
    "rounded to four digits": ((10, 1000, 200, 0.50004), [], "equal", []),
    "without costs": ((10, 1000, 200, None), [], "equal", []),
    "one call less": ((9, 900, 180, 0.45), [], "differs", []),
    "one call twice": ((11, 1100, 220, 0.55), [], "differs", []),
    "another price": ((10, 1000, 200, 0.6), [], "differs", []),
    "a token more": ((10, 1001, 200, 0.5), [], "differs", []),
    # 10 + 3 requests, no tokens
    "failed requests counted": ((13, 1000, 200, 0.5), [FAILED], "explained", ["up to 3 failed requests"]),
    "some of the failed requests counted": ((11, 1000, 200, 0.5), [FAILED], "explained", ["up to 3 failed requests"]),
    "more than the failed requests": ((14, 1000, 200, 0.5), [FAILED], "differs", []),
    "failed requests with tokens": ((12, 1001, 200, 0.5), [FAILED], "differs", []),
    "failed requests not counted": ((10, 1000, 200, 0.5), [FAILED], "equal", []),
    "another key is not on it": ((10, 1000, 200, 0.5), [OTHER_KEY], "explained", ["4 calls with the key k2"]),
    # 10 + 2 requests with 300 of at most 1,000 tokens, and 0.1 of at most 0.4 USD
    "lost calls were billed": ((12, 1250, 250, 0.6), [LOST], "explained", ["up to 2 calls"]),
    "more than the lost calls": ((13, 1250, 250, 0.6), [LOST], "differs", []),
    "more tokens than they may": ((12, 1900, 400, 0.6), [LOST], "differs", []),
    "more money than they may": ((12, 1250, 250, 1.0), [LOST], "differs", []),
    # A lost call that was billed is a request more, whatever is known of its answer.
    "tokens without a request": ((10, 1250, 250, 0.6), [LOST], "differs", []),
    "money without a request": ((10, 1000, 200, 0.6), [LOST], "differs", []),
    # 1 request of at most 600 tokens and 0.25 USD: 500 + 100; 501 + 100; 0.25; 0.26
    "all that one lost call may use": ((11, 1500, 300, 0.75), [LOST], "explained", ["up to 2 calls"]),
    "more tokens than one may use": ((11, 1501, 300, 0.75), [LOST], "differs", []),
    "more money than one may use": ((11, 1500, 300, 0.76), [LOST], "differs", []),
    "both": ((15, 1250, 250, 0.6), [LOST, FAILED], "explained", ["3 failed requests", "up to 2 calls"]),
    "either, and the fewest are said": ((12, 1000, 200, 0.5), [LOST, FAILED], "explained", ["3 failed requests"]),
    # Said, but no explanation: they were paid for.
    "without the retries": ((10, 1000, 200, 0.5), [RETRIES], "differs", ["exactly its retries (2)"]),
    "without the unused": ((12, 1150, 230, 0.56), [RETRIES, UNUSED], "differs", ["not used (1)"]),
    "without errors and retries": ((10, 1000, 200, 0.5), [RETRIES, ERRORS], "differs", ["its retries", "its errors"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_day(case: str) -> None:
    bill, more, verdict, because = CASES[case]
    found = compare([charge(*bill)], [USED, *more])
    [line] = found.lines
    assert line.verdict == verdict, line
    assert len(line.because) == len(because)
    assert all(word in said for word, said in zip(because, line.because, strict=True)), line.because
    assert found.passed == (verdict != "differs")


def test_lines_of_a_day_are_added_up() -> None:
    found = compare([charge(4, 400, 80, 0.2), charge(6, 600, 120, 0.3)], [USED])
    assert [line.verdict for line in found.lines] == ["equal"]


def test_a_day_that_the_bill_lacks_and_the_difference_it_makes() -> None:
    found = compare([charge(10, 1000, 200, 0.5)], [USED, replace(USED, day=NEXT)])
    assert [(line.day, line.verdict) for line in found.lines] == [(DAY, "equal"), (NEXT, "differs")]
    difference = found.lines[1].difference
    assert (difference.requests, difference.input_tokens, difference.output_tokens) == (-10, -1000, -200)
    assert difference.cost_usd == -0.5


def test_costs_are_not_compared_where_the_ledger_has_none() -> None:
    found = compare([charge(10, 1000, 200, 7.0)], [replace(USED, unpriced_calls=1)])
    assert [(line.verdict, line.costs_compared) for line in found.lines] == [("equal", False)]


def test_another_run_of_the_database_is_on_the_bill_too() -> None:
    theirs = part(5, 50, 5, 0.01)
    found = compare([charge(15, 1050, 205, 0.51)], [USED], {"theirs": [theirs], "idle": []})
    assert [(line.verdict, line.because) for line in found.lines] == [
        ("explained", ["it has 5 calls of run theirs too"])
    ]
    assert compare([charge(15, 1051, 205, 0.51)], [USED], {"theirs": [theirs]}).passed is False


def test_reasons_that_were_not_tried_are_counted() -> None:
    theirs = {f"r{number:02}": [part(number, 50, 5, 0.01)] for number in range(1, 11)}
    found = compare([charge(15, 1051, 205, 0.51)], [USED], theirs)
    assert [(line.verdict, line.because) for line in found.lines] == [
        ("differs", ["2 further reasons not tried: calls with other keys, or of other runs"])
    ]


def test_a_call_around_midnight_may_be_on_either_day() -> None:
    run = [USED, LATE, replace(USED, day=NEXT)]
    moved = [charge(10, 1000, 200, 0.5), charge(11, 1100, 220, 0.55, day=NEXT)]
    assert [(line.day, line.verdict) for line in compare(moved, run).lines] == [
        (DAY, "explained"),
        (NEXT, "explained"),
        (None, "equal"),
    ]
    # On both days it is billed twice, which all days together show.
    twice = [charge(11, 1100, 220, 0.55), charge(11, 1100, 220, 0.55, day=NEXT)]
    assert [line.verdict for line in compare(twice, run).lines] == ["equal", "explained", "differs"]


def test_a_run_may_end_after_midnight() -> None:
    # Ten calls begin on the first day; one of them ends on the next, where the run began none.
    run = [part(9, 900, 180, 0.45), LATE]
    bill = [charge(9, 900, 180, 0.45), charge(1, 100, 20, 0.05, day=NEXT)]
    found = compare(bill, run)
    assert [(line.day, line.verdict) for line in found.lines] == [
        (DAY, "explained"),
        (NEXT, "explained"),
        (None, "equal"),
    ]
    assert found.left_out_lines == 0
    # Of another model nothing ended there.
    found = compare([*bill, charge(1, 1, 1, day=NEXT, model="n")], [*run, part(model="n")])
    assert found.left_out_lines == 1


def test_a_lost_call_around_midnight_may_be_on_the_next_day() -> None:
    lost = replace(LOST, calls=1, bound_tokens=600, bound_cost_usd=0.25, late=True)
    found = compare([charge(10, 1000, 200, 0.5), charge(1, 500, 100, 0.25, day=NEXT)], [USED, lost])
    assert [line.verdict for line in found.lines] == ["equal", "explained", "explained"]


def test_runs_that_were_not_looked_at_are_counted() -> None:
    ledger = Ledger(run=[USED], others=lambda: Neighbours(runs={}, left_out=3))
    assert reconcile([charge(11, 1100, 220, 0.55)], ledger).left_out_runs == 3
    assert reconcile([charge(10, 1000, 200, 0.5)], ledger).left_out_runs == 0


def test_what_is_not_about_the_run_is_left_out_and_counted() -> None:
    strange = [charge(7, 70, 7, day=NEXT), charge(3, 30, 3, model="other")]
    found = compare([charge(10, 1000, 200), *strange], [USED])
    assert (found.left_out_lines, found.left_out_requests, found.left_out_models) == (2, 10, ["other"])
    assert found.passed
