"""One call that reasons before it answers (Wei et al. 2022, arXiv 2201.11903)."""

from collections.abc import Sequence
from typing import ClassVar

from workers.strategies.base import Answer, ModelCall, Reply, TaskView
from workers.strategies.marks import after_mark
from workers.strategies.prompts import Prompted, TaskPrompt

PROMPT = """{goal}

{files}

Think step by step before you answer. When you are done, write a line that starts with `Answer:` and \
after it the final answer alone, in the format that is asked for above; it may take several lines. \
Write nothing after it."""


class ChainOfThought(Prompted):
    """One call that is asked to reason first; the answer is what follows its last `Answer:` line."""

    kind: ClassVar[str] = "chain_of_thought"
    calls_formula: ClassVar[str] = "1"

    prompt: TaskPrompt = PROMPT

    @property
    def opening_samples(self) -> int:
        return 1

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        return self.draw(self.prompt, task, 1)

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Answer:
        return Answer(text=final_answer(replies[0].content))


def final_answer(content: str) -> str:
    """What follows the last `Answer:` line, or the whole text when there is none."""
    answer = after_mark(content, "answer")
    return content.strip() if answer is None else answer
