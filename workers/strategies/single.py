"""One call, and what comes back is the answer: the baseline that every other kind is measured against."""

from collections.abc import Sequence
from typing import ClassVar

from workers.strategies.base import Answer, ModelCall, Reply, TaskView
from workers.strategies.prompts import Prompted, TaskPrompt

PROMPT = "{goal}\n\n{files}"


class Single(Prompted):
    """One call; its whole text is the answer."""

    kind: ClassVar[str] = "single"
    calls_formula: ClassVar[str] = "1"

    prompt: TaskPrompt = PROMPT

    @property
    def opening_samples(self) -> int:
        return 1

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        return self.draw(self.prompt, task, 1)

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Answer:
        return Answer(text=replies[0].content)
