"""Simulated models as judges: the usual ones prefer right answers, two others are of no use."""

from collections.abc import Sequence

import pytest

from paretoken.simulator.answering import answer
from paretoken.simulator.models import MODELS
from paretoken.simulator.tasks import SimulatedTask, TaskBook
from paretoken.simulator.wire import ChatRequest
from workers.judges import judge
from workers.strategies import TaskView

GOAL = "Count the birds on the island and give the number."
BOOK = TaskBook([SimulatedTask(id="birds", goal=GOAL, difficulty="medium", reference="336")])
RIGHT, WRONG, ALSO_WRONG = "336", "335", "17"


def scores(
    kind: str, model: str, answers: Sequence[str], number: int, goal: str = GOAL
) -> Sequence[float] | None:
    """What a reply of the simulated model says, read as the workers read it."""
    asking = judge(kind, {"model": model})
    call = asking.ask(TaskView(task_id="birds", goal=goal), answers)
    request = ChatRequest.model_validate({"model": model, "messages": call.messages, "temperature": 0})
    said = answer(request, model=MODELS[model], tasks=BOOK, draw=f"{number}", latency_sigma=0)
    return asking.scores(said.content, len(answers))


@pytest.mark.parametrize("answers", [(RIGHT, WRONG), (WRONG, RIGHT)])
def test_a_good_judge_prefers_the_right_answer_wherever_it_stands(answers: Sequence[str]) -> None:
    found = [scores("pairwise", "sim-reasoning", answers, number) for number in range(200)]
    better = answers.index(RIGHT)
    for_right = sum(told is not None and told[better] > told[1 - better] for told in found)
    for_wrong = sum(told is not None and told[better] < told[1 - better] for told in found)
    assert for_right > 120
    assert for_wrong < 20
    assert None not in found


def test_two_answers_that_are_equally_right_are_mostly_a_tie() -> None:
    found = [scores("pairwise", "sim-reasoning", (RIGHT, RIGHT), number) for number in range(100)]
    assert found.count((0.5, 0.5)) > 70


def test_a_ranking_names_every_answer_and_puts_the_right_one_first() -> None:
    found = [scores("listwise", "sim-reasoning", (WRONG, ALSO_WRONG, RIGHT), number) for number in range(100)]
    assert sum(told is not None and max(told) == told[2] for told in found) > 70


def test_points_tell_right_from_wrong() -> None:
    points = {
        shown: [
            told[0] for number in range(100) if (told := scores("rubric", "sim-reasoning", (shown,), number))
        ]
        for shown in (RIGHT, WRONG)
    }
    assert [len(given) for given in points.values()] == [100, 100]
    assert sum(points[RIGHT]) / 100 > sum(points[WRONG]) / 100 + 3


@pytest.mark.parametrize("goal", [GOAL, "A task that the gateway does not know."])
def test_a_biased_judge_prefers_the_first_place_whatever_stands_there(goal: str) -> None:
    for answers in ((RIGHT, WRONG), (WRONG, RIGHT)):
        assert scores("pairwise", "sim-judge-a", answers, 1, goal) == (1, 0)
    assert scores("listwise", "sim-judge-a", (WRONG, RIGHT, ALSO_WRONG), 1, goal) == [3, 2, 1]
    assert scores("rubric", "sim-judge-a", (WRONG,), 1, goal) == [10]


@pytest.mark.parametrize("kind", ["pairwise", "listwise", "rubric"])
def test_noise_cannot_be_read(kind: str) -> None:
    answers = (RIGHT, WRONG)[: 1 if kind == "rubric" else 2]
    assert {scores(kind, "sim-judge-noise", answers, number) for number in range(50)} == {None}
