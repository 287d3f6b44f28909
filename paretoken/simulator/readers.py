"""What a simulated model makes of a prompt that shows it answers: it judges them, or takes one over.

It judges an answer rightly with the probability of solving the task with EFFORT_OF_CHECKING: checking is easier than
solving. The marks are those that the strategies' own prompts ask for.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

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


def judgement(prompt: Prompt, task: SimulatedTask, p_right: float, rng: random.Random) -> str | None:
    """The line with the judgement that the prompt asks for, or `None` when it asks for an answer."""
    if not prompt.shown:
        return None
    held = [is_right(answer, task) == (rng.random() < p_right) for answer in prompt.shown]
    if "Best:" in prompt.frame:
        good = [number for number, right in enumerate(held, start=1) if right]
        return f"Best: {rng.choice(good or range(1, len(held) + 1))}"
    if "Score:" in prompt.frame:
        return f"Score: {rng.randint(7, 10) if held[-1] else rng.randint(0, 4)}"
    if "Verdict: right" in prompt.frame:
        return f"Verdict: {'right' if held[-1] else 'wrong'}"
    if "Verdict: good" in prompt.frame:
        return f"Verdict: {'good' if held[-1] else 'revise'}"
    return None
