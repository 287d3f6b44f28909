"""Two answers, shown in both orders: who is preferred both times wins, anything else that can be read is a tie.

Both orders, since models prefer a place whatever stands there (Zheng et al. 2023, arXiv 2306.05685).
"""

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from workers.judges.base import Judge, Reading, Verdict
from workers.strategies.marks import after_mark
from workers.strategies.prompts import fenced, template

PROMPT = """Two people were given this task:

{goal}

{files}

These are their answers:

{answers}

Which answer is better? Judge whether it is right first, and how well it does what is asked next. Neither their order \
nor their length matters. Give your reason in one or two sentences. Then write a last line `Winner: A` or `Winner: B`, \
or `Winner: tie` where neither is better."""

_CHOICE = re.compile(r"\W*(?:(?:answer|solution)\W+)?(A|B|tie)\b", re.IGNORECASE)
_SCORES = {"a": (1.0, 0.0), "b": (0.0, 1.0), "tie": (0.5, 0.5)}


class Pairwise(Judge):
    """Which of two answers is better, asked in both orders."""

    kind: ClassVar[str] = "pairwise"
    calls_formula: ClassVar[str] = 'm(m-1); with pairs = "neighbours" 2(m-1); with a sample of n pairs 2n'
    by_pairs: ClassVar[bool] = True

    prompt: Annotated[str, template("goal", "files", "answers", needs="answers")] = PROMPT
    pairs: Literal["all", "neighbours"] | Annotated[int, Field(ge=1, le=1_000_000)] = "all"
    """Pairs of a task and repeat: all, those that follow each other in the experiment, or so many by chance."""

    @property
    def calls(self) -> int:
        return 2

    def showings(self, answers: int, draw: str) -> Sequence[Sequence[int]]:
        return [(0, 1), (1, 0)]

    def listed(self, answers: Sequence[str]) -> str:
        return "\n\n".join(
            f"Answer {letter}:\n{fenced(answer)}" for letter, answer in zip("AB", answers, strict=True)
        )

    def scores(self, reply: str, shown: int) -> Sequence[float] | None:
        choice = _CHOICE.match(after_mark(reply, "winner") or "")
        return _SCORES[choice[1].lower()] if choice else None

    def verdicts(self, readings: Sequence[Reading]) -> Sequence[Verdict]:
        found = [_preferred(reading) for reading in readings if reading.scores is not None]
        if len(found) < len(readings) or not found:
            return []
        if len(set(found)) > 1 or found[0] is None:
            return [Verdict(winner=0, loser=1, tie=True)]
        return [Verdict(winner=found[0], loser=1 - found[0])]


def _preferred(reading: Reading) -> int | None:
    assert reading.scores is not None
    first, second = reading.scores
    return None if first == second else reading.shown[0 if first > second else 1]
