"""What each kind asks and what it makes of the replies, against hand-made replies."""

import pytest

from workers.strategies import KINDS, Answer, Reply, Strategy, StrategyInvalid, TaskView, strategy
from workers.strategies.chain_of_thought import final_answer

TASK = TaskView(task_id="t1", goal="How many rows?", files={"a.csv": "x\n1\n"})


def build(kind: str, **params: object) -> Strategy:
    return strategy(kind, {"model": "m", **params})


def replies(*contents: str) -> list[Reply]:
    return [Reply(round=1, sample=i, content=content) for i, content in enumerate(contents, start=1)]


def answer(built: Strategy, *contents: str) -> Answer:
    proceeded = built.proceed(TASK, replies(*contents))
    assert isinstance(proceeded, Answer)
    return proceeded


@pytest.mark.parametrize(
    ("kind", "params", "samples", "temperature"),
    [
        ("single", {}, 1, None),
        ("chain_of_thought", {"temperature": 0.0}, 1, 0.0),
        ("self_consistency", {"k": 3}, 3, 0.7),
        ("self_consistency", {"k": 3, "temperature": None}, 3, 0.7),
        ("self_consistency", {"k": 10, "temperature": 1.0}, 10, 1.0),
    ],
)
def test_opening_calls(kind: str, params: dict[str, object], samples: int, temperature: float | None) -> None:
    built = build(kind, max_tokens=50, **params)
    calls = built.opening(TASK)
    assert built.opening_samples == samples
    assert [(c.round, c.sample) for c in calls] == [(1, i) for i in range(1, samples + 1)]
    assert {(c.model, c.max_tokens, c.temperature) for c in calls} == {("m", 50, temperature)}
    assert all(TASK.goal in str(c.messages[-1]["content"]) for c in calls)


def test_single_answers_with_the_whole_text() -> None:
    assert answer(build("single"), "It is 1.\nAnswer: 1").text == "It is 1.\nAnswer: 1"


def test_chain_of_thought_asks_to_reason_and_to_mark_the_answer() -> None:
    prompt = str(build("chain_of_thought").opening(TASK)[0].messages[-1]["content"])
    assert "step by step" in prompt
    assert "`Answer:`" in prompt


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("I count.\nAnswer: 42", "42"),
        ("Answer: 1\nNo, wait.\nAnswer: 2", "2"),
        ("Reasons.\n\nAnswer:\n| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("**Answer:** 42", "42"),
        ("**Answer: 42**", "42"),
        ("### Final answer: 42", "42"),
        ("ANSWER: 42\n", "42"),
        ("  Answer: **Gentoo** and **Adelie**", "**Gentoo** and **Adelie**"),
        ("no mark at all ", "no mark at all"),
        ("The answer: is not at the start of a line", "The answer: is not at the start of a line"),
        ("Cut off.\nAnswer:", ""),
        ("", ""),
    ],
)
def test_final_answer(content: str, expected: str) -> None:
    assert final_answer(content) == expected


def test_self_consistency_votes_on_the_final_answers_and_keeps_the_votes() -> None:
    got = answer(build("self_consistency", k=4), "3+4\nAnswer: 7", "Answer: 8", "hm\nAnswer: 7.0", "Answer:")
    assert got.text == "7"
    assert got.detail == {
        "votes": [
            {"answer": "7", "samples": [1, 3], "weight": 2.0},
            {"answer": "8", "samples": [2], "weight": 1.0},
        ]
    }


def test_self_consistency_without_reasoning_takes_whole_texts_and_asks_for_no_steps() -> None:
    built = build("self_consistency", k=3, reasoning=False)
    assert "step by step" not in str(built.opening(TASK)[0].messages[-1]["content"])
    assert answer(built, "Answer: 7", "8", "8").text == "8"


def test_the_same_replies_give_the_same_answer() -> None:
    built = build("self_consistency", k=3)
    assert answer(built, "a", "b", "c") == answer(built, "a", "b", "c")


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        (
            "self_consistancy",
            {},
            "unknown strategy kind 'self_consistancy', did you mean 'self_consistency'?",
        ),
        ("oracle", {}, f"unknown strategy kind 'oracle'; kinds: {', '.join(KINDS)}"),
        ("single", {"temprature": 0.2}, "unknown parameter 'temprature', did you mean 'temperature'?"),
        ("single", {"temperature": 3}, "temperature = 3: Input should be less than or equal to 2"),
        ("self_consistency", {}, "parameter 'k' is missing"),
        ("self_consistency", {"k": 0}, "k = 0: Input should be greater than or equal to 1"),
        ("self_consistency", {"k": "x" * 500}, "'" + "x" * 79 + "…"),
    ],
)
def test_what_an_experiment_gets_wrong_is_named(kind: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(StrategyInvalid) as refused:
        build(kind, **params)
    assert message in str(refused.value)
