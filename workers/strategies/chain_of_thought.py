"""One call that reasons before it answers (Wei et al. 2022, arXiv 2201.11903)."""

import re
from collections.abc import Sequence
from typing import ClassVar

from workers.strategies.base import Answer, ModelCall, Reply, TaskView
from workers.strategies.prompts import Prompted, TaskPrompt

PROMPT = """{goal}

{files}

Think step by step before you answer. When you are done, write a line that starts with `Answer:` and \
after it the final answer alone, in the format that is asked for above; it may take several lines. \
Write nothing after it."""

# Models like to dress the line up: `**Answer:** 42`, `### Answer:`, `Final answer: 42`.
_ANSWER_LINE = re.compile(r"^[ \t>#*_`]*(?:final )?answer[*_`]*:[*_`]*", re.IGNORECASE | re.MULTILINE)


class ChainOfThought(Prompted):
    """One call that is asked to reason first; the answer is what follows its last `Answer:` line."""

    kind: ClassVar[str] = "chain_of_thought"

    prompt: TaskPrompt = PROMPT

    @property
    def opening_samples(self) -> int:
        return 1

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        return [self.ask(self.fill(self.prompt, task), stage=1, sample=1)]

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Answer:
        return Answer(text=final_answer(replies[0].content))


def final_answer(content: str) -> str:
    """What follows the last `Answer:` line, or the whole text when there is none."""
    found = list(_ANSWER_LINE.finditer(content))
    if not found:
        return content.strip()
    answer = content[found[-1].end() :].strip()
    # The closing half of `**Answer: 42**`.
    return answer.removesuffix("**").rstrip() if answer.count("**") == 1 else answer
