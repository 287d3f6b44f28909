"""All answers of a task in one prompt, to be ranked; several passes, each in an order drawn anew."""

import random
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from workers.judges.base import Judge
from workers.strategies.marks import after_mark
from workers.strategies.prompts import numbered, template

PROMPT = """Several people were given this task:

{goal}

{files}

These are their answers:

{answers}

Rank all of them, the best first. Judge whether an answer is right first, and how well it does what is asked next. \
Neither their order nor their length matters. Give your reasons in a few sentences. Then write a last line such as \
`Ranking: 2, 1, 3` with the number of every answer."""


class Listwise(Judge):
    """A ranking of all answers."""

    kind: ClassVar[str] = "listwise"
    calls_formula: ClassVar[str] = "passes"

    prompt: Annotated[str, template("goal", "files", "answers", needs="answers")] = PROMPT
    passes: int = Field(default=2, ge=1, le=1000)
    """How often each task's answers are ranked."""

    @property
    def calls(self) -> int:
        return self.passes

    def showings(self, answers: int, draw: str) -> Sequence[Sequence[int]]:
        rng = random.Random(draw)
        return [rng.sample(range(answers), answers) for _ in range(self.passes)]

    def listed(self, answers: Sequence[str]) -> str:
        return numbered("Answer", dict(enumerate(answers, start=1)))

    def scores(self, reply: str, shown: int) -> Sequence[float] | None:
        line = (after_mark(reply, "ranking") or "").partition("\n")[0]
        order = [int(number) for number in re.findall(r"\d{1,6}", line)]
        if sorted(order) != list(range(1, shown + 1)):
            return None
        return [float(shown - order.index(number)) for number in range(1, shown + 1)]
