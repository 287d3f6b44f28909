"""How a task and its files become messages."""

import pytest

from workers.strategies import StrategyInvalid, TaskView, strategy
from workers.strategies.prompts import files_text, fill


def user_message(task: TaskView, **params: object) -> str:
    opened = strategy("single", {"model": "m", **params}).opening(task)
    return str(opened[0].messages[-1]["content"])


def test_goal_first_then_each_file_under_its_name() -> None:
    task = TaskView(task_id="t", goal="Count rows.", files={"a.csv": "x\n1\n", "b.txt": "hello"})
    assert user_message(task) == (
        "Count rows.\n\nFile `a.csv`:\n```csv\nx\n1\n```\n\nFile `b.txt`:\n```txt\nhello\n```"
    )


def test_a_task_without_files_leaves_no_gap() -> None:
    task = TaskView(task_id="t", goal="What is 2 + 2?")
    assert user_message(task) == "What is 2 + 2?"
    assert user_message(task, prompt="{files}\n\n{goal}\n\nBe brief.") == "What is 2 + 2?\n\nBe brief."


def test_files_are_cut_at_the_end_of_a_line_and_said_to_be() -> None:
    # 6 + 6 + 6 = 18 characters; 13 hold two whole lines = 12; the second file has 1 left, so nothing of it
    text = files_text({"a.csv": "11111\n22222\n33333\n", "b.csv": "4\n5\n"}, 13)
    assert text == (
        "File `a.csv`:\n```csv\n11111\n22222\n```\n[`a.csv` is cut here: 12 of its 18 characters are shown]"
        "\n\nFile `b.csv`:\n[`b.csv` is cut here: 0 of its 4 characters are shown]"
    )


def test_a_file_cannot_close_its_own_fence() -> None:
    text = files_text({"a.md": "before\n````\nafter"}, 1000)
    assert text.startswith("File `a.md`:\n`````md\n")
    assert text.endswith("\n`````")


def test_values_are_put_in_literally_and_once() -> None:
    goal = "Print {files} and {0.__class__} and {goal} and {}"
    assert fill("{goal} | {files}", {"goal": goal, "files": "F"}) == f"{goal} | F"


def test_system_prompt_is_sent_when_there_is_one() -> None:
    task = TaskView(task_id="t", goal="g")
    call = strategy("single", {"model": "m", "system": "Be exact."}).opening(task)[0]
    assert [(m["role"], m["content"]) for m in call.messages] == [("system", "Be exact."), ("user", "g")]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("{goal} {file}", "unknown placeholder {file}; allowed: {goal}, {files}"),
        ("{goal} {reference}", "unknown placeholder {reference}"),
        ("{files}", "the placeholder {goal} is missing"),
    ],
)
def test_wrong_placeholders_are_refused_by_name(prompt: str, message: str) -> None:
    with pytest.raises(StrategyInvalid) as refused:
        strategy("chain_of_thought", {"model": "m", "prompt": prompt})
    assert message in str(refused.value)


def test_braces_that_are_no_placeholder_are_allowed() -> None:
    task = TaskView(task_id="t", goal="g")
    assert user_message(task, prompt='{goal} as {"a": {"b": 1}} {}') == 'g as {"a": {"b": 1}} {}'
