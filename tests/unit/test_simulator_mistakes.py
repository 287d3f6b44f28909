"""Wrong answers are wrong, different from each other, and still of the right form."""

import json

import pytest

from paretoken.simulator.mistakes import wrong_answers

TABLE = "| column | missing |\n|---|---|\n| age | 177 |\n| cabin | 687 |\n| embarked | 2 |"


@pytest.mark.parametrize(
    "right",
    [
        "42",
        "0",
        "0.875",
        "Paris",
        "true",
        "The file has 336 rows and 12 columns.",
        "Stop at the first broken row and ask the owner.",
        TABLE,
        '{"rows": 336, "tags": ["a", "b"], "ok": true, "note": null}',
        "[1.5e-7, 2]",
        "{}",
    ],
)
def test_wrong_answers_are_several_and_wrong(right: str) -> None:
    wrong = wrong_answers(right)
    assert len(wrong) >= 3
    assert len(set(wrong)) == len(wrong)
    assert right.split() not in [text.split() for text in wrong]


def test_the_same_reference_gives_the_same_mistakes() -> None:
    first = wrong_answers(TABLE)
    wrong_answers.cache_clear()
    assert wrong_answers(TABLE) == first


def test_a_wrong_object_differs_in_one_place() -> None:
    right = {"rows": 336, "share": 0.25, "name": "planes", "clean": False}
    for text in wrong_answers(json.dumps(right)):
        wrong = json.loads(text)
        assert wrong.keys() == right.keys()
        assert sum(wrong[key] != right[key] for key in right) == 1


def test_numbers_keep_their_decimals_and_leading_zeros() -> None:
    for text in wrong_answers("on 2024-01-05: 12.50"):
        date, _, amount = text.removeprefix("on ").partition(": ")
        assert [len(part) for part in date.split("-")] == [4, 2, 2]
        assert len(amount.partition(".")[2]) == 2
