"""Votes on a hand-made table: which answers are one answer, and who wins."""

import pytest

from workers.strategies.voting import majority, normalise

EQUAL = {
    "thousands": ["1,024", "1024", "1024.0", "1_024", "1'024", "1.024e3", " 1024. ", "+1024"],
    "zero": ["0", "0.00", "-0"],
    "minus sign": ["-5", "\u22125", "-5.0"],
    "currency": ["$1024", "$1,024.00", "1024 USD", "1024 dollars", "$ 1024"],
    "negative currency": ["-$5", "-5 USD"],
    "mass": ["5 kg", "5kg", "5 Kilograms", "5.0 kg."],
    "share": ["12.5%", "12.5 percent", "12.50 %"],
    "own unit": ["39 penguins", "39 Penguin", "39.0 penguins."],
    "case and blanks": ["Gentoo", " gentoo ", "GENTOO.", "**Gentoo**", "`gentoo`", '"Gentoo"'],
    "many words": ["Biscoe and Dream", "biscoe  and\ndream"],
    "fence": ["```\n42\n```", "42", "```text\n42\n```"],
    "JSON": ['{"a": 1, "b": [2, 3]}', '{"b":[2,3],"a":1.0}', '```json\n{"b": [2, 3],\n "a": 1}\n```'],
}

DIFFERENT = [
    ("1024", "1025"),
    ("1.024", "1,024"),
    ("5 kg", "5 g"),
    ("$5", "€5"),
    ("50%", "0.5"),
    ("5", "-5"),
    ('{"a": "X"}', '{"a": "x"}'),
    ("[1, 2]", "[2, 1]"),
    ("1,02", "102"),
    ("Biscoe", "Dream"),
    ("12345678901234567890123456789012345678901", "12345678901234567890123456789012345678902"),
]


@pytest.mark.parametrize("spellings", EQUAL.values(), ids=EQUAL)
def test_one_answer_in_many_spellings(spellings: list[str]) -> None:
    assert len({normalise(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_answers_stay_apart(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        # answers, (winner, samples, weight) of each group, the heaviest first
        (["a"], [("a", [1], 1)]),
        (["a", "b", "b"], [("b", [2, 3], 2), ("a", [1], 1)]),
        # a tie of 2 : 2 goes to the answer that was seen first
        (["b", "a", "a", "b"], [("b", [1, 4], 2), ("a", [2, 3], 2)]),
        # empty answers have no vote, though two of them would have won
        (["", " ", "a"], [("a", [3], 1)]),
        (["```\n\n```", "a"], [("a", [2], 1)]),
        (["", "  "], [("", [1, 2], 2)]),
        # 1,024 = 1024.0 = $1024: a number without unit goes with the only unit there is
        (["1,024", "7", "1024.0", "$1024"], [("1,024", [1, 3, 4], 3), ("7", [2], 1)]),
        (["39", "39 penguins", "38"], [("39", [1, 2], 2), ("38", [3], 1)]),
        # with two units it could be either, so it stays alone
        (["5", "5 kg", "5 g", "5 kg"], [("5 kg", [2, 4], 2), ("5", [1], 1), ("5 g", [3], 1)]),
        # the winner is given as its first voter spelled it
        (["GENTOO.", "Adelie", "gentoo"], [("GENTOO.", [1, 3], 2), ("Adelie", [2], 1)]),
    ],
)
def test_votes(answers: list[str], expected: list[tuple[str, list[int], float]]) -> None:
    assert [(vote.answer, list(vote.samples), vote.weight) for vote in majority(answers)] == expected


def test_weights_decide_against_the_number_of_voters() -> None:
    # a: 0.2 + 0.3 = 0.5, b: 0.9
    votes = majority(["a", "a", "b"], weights=[0.2, 0.3, 0.9])
    assert [vote.answer for vote in votes] == ["b", "a"]


def test_no_answers_at_all_is_a_programming_mistake() -> None:
    with pytest.raises(ValueError, match="no answers"):
        majority([])


@pytest.mark.parametrize(
    "hostile",
    [
        "1e999999999",
        "[" * 100_000,
        "." * 100_000,
        "`" * 100_000,
        "*" * 100_001,
        "9" * 100_000,
        '{"a":' * 50_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_answers_are_only_text(hostile: str) -> None:
    assert majority([hostile, "a", "a"])[0].answer == "a"
