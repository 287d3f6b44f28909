"""How often a simulated model is right, what it writes, and what that costs."""

from collections import Counter
from typing import Any

import pytest

from paretoken.simulator.answering import Answered, answer, chance, cut, fingerprint, spend, tokens_of
from paretoken.simulator.models import MODELS
from paretoken.simulator.tasks import SimulatedTask, TaskBook
from paretoken.simulator.wire import ChatRequest

TASK = SimulatedTask(id="rows", goal="Count the rows.", difficulty="medium", reference="There are 336 rows.")
PLAN = SimulatedTask(
    id="plan", goal="Write a step-by-step plan.", difficulty=0.1, reference="1. Load\n2. Stop"
)
TASKS = TaskBook([TASK, PLAN])


def ask(prompt: str, model: str = "sim-medium", **fields: Any) -> ChatRequest:
    return ChatRequest.model_validate(
        {"model": model, "messages": [{"role": "user", "content": prompt}], **fields}
    )


def draw(prompt: str, number: int, model: str = "sim-medium", **fields: Any) -> Answered:
    return answer(
        ask(prompt, model, **fields), model=MODELS[model], tasks=TASKS, draw=f"{number}", latency_sigma=0.5
    )


@pytest.mark.parametrize(
    ("model", "difficulty", "effort", "expected"),
    [
        # P = 1 / (1 + exp(-6 (skill + effort - difficulty)))
        ("sim-small", "easy", 0, 0.8176),  # 6 (0.45 - 0.20) = 1.50
        ("sim-medium", "medium", 0, 0.6457),  # 6 (0.60 - 0.50) = 0.60
        ("sim-medium", "medium", 0.15, 0.8176),  # 6 (0.60 + 0.15 - 0.50) = 1.50
        ("sim-large", "hard", 0, 0.4256),  # 6 (0.75 - 0.80) = -0.30
        ("sim-large", 0.75, 0, 0.5),
    ],
)
def test_chance(model: str, difficulty: Any, effort: float, expected: float) -> None:
    task = SimulatedTask(id="t", goal="g", difficulty=difficulty, reference="r")
    assert chance(MODELS[model], task, effort=effort) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("prompt", "expected"), [("", 0.6457), ("Think step by step. ", 0.8176)])
def test_answers_are_right_as_often_as_the_chance_says(prompt: str, expected: float) -> None:
    draws = [draw(prompt + TASK.goal, number) for number in range(2000)]
    # The standard error of a share of 2,000 is at most sqrt(0.25 / 2000) = 0.011.
    assert sum(bool(drawn.right) for drawn in draws) / 2000 == pytest.approx(expected, abs=0.04)
    assert all((TASK.right_answer in drawn.content) == drawn.right for drawn in draws)


def test_a_vote_among_ten_is_right_more_often_than_one_answer() -> None:
    contents = [draw(TASK.goal, number).content for number in range(2000)]
    votes = [Counter(contents[at : at + 10]).most_common(1)[0][0] for at in range(0, 2000, 10)]
    assert votes.count(TASK.right_answer) / 200 > 0.9 > contents.count(TASK.right_answer) / 2000


def test_the_same_draw_gives_the_same_answer() -> None:
    assert draw(TASK.goal, 7) == draw(TASK.goal, 7)
    assert len({draw(TASK.goal, number).content for number in range(30)}) > 2


@pytest.mark.parametrize(
    ("prompt", "fields", "steps", "mark"),
    [
        (TASK.goal, {}, False, False),
        (f"{TASK.goal} End with a line `Answer:`.", {}, False, True),
        (f"Think step by step. {TASK.goal}", {}, True, False),
        (f"Think step by step. {TASK.goal} End with a line `Answer:`.", {}, True, True),
        # JSON mode leaves room for the answer alone.
        (
            f"Think step by step. {TASK.goal} Answer:",
            {"response_format": {"type": "json_object"}},
            False,
            False,
        ),
        # These words are the task's own.
        (PLAN.goal, {}, False, False),
    ],
)
def test_what_is_written_around_the_answer(
    prompt: str, fields: dict[str, Any], steps: bool, mark: bool
) -> None:
    drawn = next(drawn for number in range(100) if (drawn := draw(prompt, number, **fields)).right)
    task = PLAN if drawn.task_id == "plan" else TASK
    assert drawn.content.endswith(f"Answer:\n{task.right_answer}" if mark else task.right_answer)
    assert drawn.content.startswith("Step 1: ") == steps
    assert ("Answer:" in drawn.content) == mark
    assert (drawn.content == task.right_answer) == (not steps and not mark)


def test_the_longest_goal_in_the_messages_is_the_task() -> None:
    longer = SimulatedTask(id="longer", goal="Count the rows. Then the columns.", reference="336 and 12")
    book = TaskBook([TASK, longer])
    found = [book.find(text) for text in (f"Hello. {TASK.goal}", f"{longer.goal} Go.", "Something else")]
    assert found == [TASK, longer, None]


def test_an_unknown_task_gets_a_text_that_says_so() -> None:
    drawn = draw("Say hello.", 0)
    assert (drawn.task_id, drawn.right) == (None, None)
    assert "simulated" in drawn.content


@pytest.mark.parametrize(("text", "expected"), [("", 1), ("abcd", 1), ("abcde", 2), ("x" * 400, 100)])
def test_tokens(text: str, expected: int) -> None:
    assert tokens_of(text) == expected


@pytest.mark.parametrize(
    ("content", "reasoning", "limit", "expected"),
    [
        # 12 characters are 3 tokens.
        ("abcdefghijkl", 0, None, ("abcdefghijkl", "stop", 3, 0)),
        ("abcdefghijkl", 0, 3, ("abcdefghijkl", "stop", 3, 0)),
        ("abcdefghijkl", 0, 2, ("abcdefgh", "length", 2, 0)),
        ("abcdefghijkl", 10, None, ("abcdefghijkl", "stop", 13, 10)),
        ("abcdefghijkl", 10, 11, ("abcd", "length", 11, 10)),
        ("abcdefghijkl", 10, 8, ("", "length", 8, 8)),
    ],
)
def test_a_token_limit_cuts(
    content: str, reasoning: int, limit: int | None, expected: tuple[str, str, int, int]
) -> None:
    answered = Answered(content=content, reasoning_tokens=reasoning)
    spent = spend(ask("x" * 40, max_tokens=limit), answered, asked_before=False)
    assert (*cut(answered, spent), spent.output_tokens, spent.reasoning_tokens) == expected
    assert spent.input_tokens == 14  # 40 / 4, and 4 for the message
    assert spent.total_tokens == 14 + expected[2]


@pytest.mark.parametrize(
    ("characters", "asked_before", "cached"),
    [(8000, False, 0), (4000, True, 0), (4080, True, 1024), (8000, True, 1920)],  # 2004 // 128 * 128 = 1920
)
def test_long_prompts_are_cached(characters: int, asked_before: bool, cached: int) -> None:
    spent = spend(ask("x" * characters), Answered(content="x"), asked_before=asked_before)
    assert spent.cached_input_tokens == cached


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
        ({"seed": 4}, True),
        ({"temperature": 0.7}, False),
        ({"max_tokens": 7}, False),
        ({"model": "sim-large"}, False),
    ],
)
def test_fingerprint(fields: dict[str, Any], same: bool) -> None:
    assert (fingerprint(ask("x")) == fingerprint(ask("x", **fields))) == same
