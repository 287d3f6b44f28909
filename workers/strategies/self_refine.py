"""Draft, critique, revise, until the critic is content (Madaan et al. 2023, arXiv 2303.17651)."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from workers.strategies import chain_of_thought
from workers.strategies.base import Answer, ModelCall, Reply, TaskView
from workers.strategies.chain_of_thought import final_answer
from workers.strategies.marks import marked_word
from workers.strategies.prompts import Prompted, TaskPrompt, fenced, template

CRITIQUE_PROMPT = """Somebody was given this task:

{goal}

{files}

This is their draft:

{draft}

Check it step by step against the task and say what has to change, without rewriting it. Then write a last line \
`Verdict: good` when nothing has to change, or `Verdict: revise`."""

REVISE_PROMPT = """{goal}

{files}

This was your draft:

{draft}

This is what a reader says about it:

{critique}

Revise it where the reader is right, and think step by step. Then write a line that starts with `Answer:` and after \
it the final answer alone, in the format that is asked for above."""


class SelfRefine(Prompted):
    """A draft, then critique and revision in turn; it ends early when the critic asks for no change."""

    kind: ClassVar[str] = "self_refine"
    calls_formula: ClassVar[str] = "2 to 1 + 2 × revisions"

    revisions: int = Field(default=2, ge=1, le=20)
    """How many revisions there may be."""
    critic_model: str = ""
    """Default: `model`."""
    critic_temperature: float = Field(default=0, ge=0, le=2)
    prompt: TaskPrompt = chain_of_thought.PROMPT
    critique_prompt: Annotated[str, template("goal", "files", "draft", needs="draft")] = CRITIQUE_PROMPT
    revise_prompt: Annotated[str, template("goal", "files", "draft", "critique", needs="critique")] = (
        REVISE_PROMPT
    )

    @property
    def models(self) -> frozenset[str]:
        return frozenset({self.model, self.critic_model or self.model})

    @property
    def opening_samples(self) -> int:
        return 1

    @property
    def calls(self) -> tuple[int, int]:
        """Draft and a content critique; or a draft, and a critique and a revision each time."""
        return 2, 1 + 2 * self.revisions

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        return self.draw(self.prompt, task, 1)

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Sequence[ModelCall] | Answer:
        # Odd rounds are drafts, even rounds their critiques.
        stage, last = replies[-1].round, replies[-1].content
        if stage % 2 == 0:
            draft = replies[-2].content
            if marked_word(last, "verdict") == "good":
                return self._answer(draft, stage, early=True)
            return [self._revise(task, draft, critique=last, stage=stage + 1)]
        if stage == 1 + 2 * self.revisions:
            return self._answer(last, stage, early=False)
        return [self._criticise(task, last, stage=stage + 1)]

    def _answer(self, draft: str, stage: int, *, early: bool) -> Answer:
        return Answer(
            text=final_answer(draft), detail={"revisions": (stage - 1) // 2, "stopped_early": early}
        )

    def _criticise(self, task: TaskView, draft: str, *, stage: int) -> ModelCall:
        text = self.fill(self.critique_prompt, task, draft=fenced(draft))
        return self.ask(
            text, stage=stage, sample=1, model=self.critic_model, temperature=self.critic_temperature
        )

    def _revise(self, task: TaskView, draft: str, *, critique: str, stage: int) -> ModelCall:
        text = self.fill(self.revise_prompt, task, draft=fenced(draft), critique=fenced(critique))
        return self.ask(text, stage=stage, sample=1)
