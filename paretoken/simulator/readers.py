"""What a simulated model makes of a prompt that shows it answers: it judges them, or takes one over.

It knows how to check with the probability of solving the task with EFFORT_OF_CHECKING: checking is easier than solving.
Where it does not know, its judgement is a toss, so that no judge is systematically wrong. The marks are those that the
strategies' own prompts ask for.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paretoken.simulator.tasks import SimulatedTask
from workers.fences import fenced_blocks
from workers.strategies.chain_of_thought import final_answer

EFFORT_OF_CHECKING = 0.25


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt taken apart."""

    frame: str
    """The words around: without the goal, the files and what others wrote."""
    shown: Sequence[str]
    """Final answers of others, or the model's own earlier one."""


def take_apart(text: str, goal: str) -> Prompt:
    """Files stand in fenced blocks with a language, what models wrote in blocks without one."""
    # The goal's own words ask for no way of working: a task may well be about a step-by-step plan.
    frame = text.replace(goal.strip(), "")
    blocks = fenced_blocks(frame)
    for block in blocks:
        frame = frame.replace(block.text, "", 1) if block.text else frame
    return Prompt(frame=frame, shown=[final_answer(block.text) for block in blocks if not block.language])


def is_right(answer: str, task: SimulatedTask) -> bool:
    return answer.split() == task.right_answer.split()


def judgement(prompt: Prompt, task: SimulatedTask, p_checked: float, rng: random.Random) -> str | None:
    """The line with the judgement that the prompt asks for, or `None` when it asks for an answer."""
    if not prompt.shown:
        return None
    p_right = (1 + p_checked) / 2
    held = [is_right(answer, task) == (rng.random() < p_right) for answer in prompt.shown]
    return _comparison(prompt.frame, held, rng) or _mark(prompt.frame, held[-1], rng)


def _comparison(frame: str, held: Sequence[bool], rng: random.Random) -> str | None:
    """Of several answers, each held to be right or wrong."""
    if "Winner:" in frame and len(held) == 2:
        return f"Winner: {'tie' if held[0] == held[1] else 'AB'[held.index(True)]}"
    if "Ranking:" in frame:
        drawn = [rng.random() for _ in held]
        order = sorted(range(len(held)), key=lambda place: (not held[place], drawn[place]))
        return f"Ranking: {', '.join(str(place + 1) for place in order)}"
    if "Best:" in frame:
        good = [number for number, right in enumerate(held, start=1) if right]
        return f"Best: {rng.choice(good or range(1, len(held) + 1))}"
    return None


def _mark(frame: str, held: bool, rng: random.Random) -> str | None:
    """Of one answer."""
    if "Score:" in frame:
        return f"Score: {rng.randint(7, 10) if held else rng.randint(0, 4)}"
    if "Verdict: right" in frame:
        return f"Verdict: {'right' if held else 'wrong'}"
    if "Verdict: good" in frame:
        return f"Verdict: {'good' if held else 'revise'}"
    return None


def useless_judgement(manner: Literal["first", "noise"], prompt: Prompt, rng: random.Random) -> str:
    """What a judge writes who prefers the first place, or who writes noise."""
    if manner == "noise":
        letters = [rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(30)]
        return "".join(letter + rng.choice(("", "", " ")) for letter in letters).strip()
    if "Ranking:" in prompt.frame:
        return f"Ranking: {', '.join(str(number) for number in range(1, len(prompt.shown) + 1))}"
    return "Score: 10" if "Score:" in prompt.frame else "Winner: A"
