"""k samples of one prompt and a majority vote over their answers (Wang et al. 2022, arXiv 2203.11171)."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from workers.strategies import chain_of_thought, single
from workers.strategies.base import Answer, ModelCall, Reply, TaskView
from workers.strategies.chain_of_thought import final_answer
from workers.strategies.prompts import Prompted, TaskPrompt
from workers.strategies.voting import majority, votes_detail


class SelfConsistency(Prompted):
    """k independent samples; the answer that most of them give, ties by first seen."""

    kind: ClassVar[str] = "self_consistency"
    calls_formula: ClassVar[str] = "k"

    k: int = Field(ge=1, le=1000)
    """Number of samples."""
    temperature: float | None = Field(default=0.7, ge=0, le=2)
    reasoning: bool = True
    """Each sample reasons first and ends with an `Answer:` line."""
    prompt: TaskPrompt | None = None
    """Default: the prompt of `chain_of_thought`, or of `single` without reasoning."""

    @property
    def opening_samples(self) -> int:
        return self.k

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        prompt = self.prompt or (chain_of_thought.PROMPT if self.reasoning else single.PROMPT)
        return self.draw(prompt, task, self.k)

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Answer:
        answers = [final_answer(reply.content) if self.reasoning else reply.content for reply in replies]
        votes = majority(answers)
        return Answer(text=votes[0].answer, detail={"votes": votes_detail(votes)})
