"""Each answer by itself, scored from 0 to 10; a task's answers are then ranked by their scores."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from workers.judges.base import Judge, Reading, Verdict, ranked
from workers.strategies.marks import marked_number
from workers.strategies.prompts import fenced, template

MOST_POINTS = 10

PROMPT = """Somebody was given this task:

{goal}

{files}

This is the answer:

{answers}

How good is it? Judge whether it is right first, and how well it does what is asked next. Give your reason in one or \
two sentences. Then write a last line `Score: N`, where N is a number from 0 (useless) to 10 (right and complete)."""


class Rubric(Judge):
    """A score for each answer, seen alone."""

    kind: ClassVar[str] = "rubric"
    calls_formula: ClassVar[str] = "m"

    prompt: Annotated[str, template("goal", "files", "answers", needs="answers")] = PROMPT

    @property
    def calls(self) -> None:
        return None

    def showings(self, answers: int, draw: str) -> Sequence[Sequence[int]]:
        return [(place,) for place in range(answers)]

    def listed(self, answers: Sequence[str]) -> str:
        return "\n\n".join(fenced(answer) for answer in answers)

    def scores(self, reply: str, shown: int) -> Sequence[float] | None:
        score = marked_number(reply, "score")
        return None if score is None or score > MOST_POINTS else [score]

    def verdicts(self, readings: Sequence[Reading]) -> Sequence[Verdict]:
        return ranked({reading.shown[0]: reading.scores[0] for reading in readings if reading.scores})
