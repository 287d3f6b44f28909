"""n candidates, each checked by the model that wrote them (Kadavath et al. 2022, arXiv 2207.05221)."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from workers.strategies import chain_of_thought
from workers.strategies.base import Answer, ModelCall, Reply, TaskView
from workers.strategies.chain_of_thought import final_answer
from workers.strategies.marks import marked_word
from workers.strategies.prompts import Prompted, TaskPrompt, fenced, template
from workers.strategies.voting import majority, votes_detail

CHECK_PROMPT = """{goal}

{files}

You have answered this before:

{candidate}

Check your answer step by step. Then write a last line `Verdict: right` or `Verdict: wrong`."""


class BestOfN(Prompted):
    """n candidates, each checked by the same model; the most frequent of those it holds to be right."""

    kind: ClassVar[str] = "best_of_n"
    calls_formula: ClassVar[str] = "2n"

    n: int = Field(default=3, ge=2, le=1000)
    """Number of candidates."""
    temperature: float | None = Field(default=0.7, ge=0, le=2)
    """Of the candidates."""
    check_temperature: float = Field(default=0, ge=0, le=2)
    prompt: TaskPrompt = chain_of_thought.PROMPT
    check_prompt: Annotated[str, template("goal", "files", "candidate", needs="candidate")] = CHECK_PROMPT

    @property
    def opening_samples(self) -> int:
        return self.n

    @property
    def calls(self) -> tuple[int, int]:
        return 2 * self.n, 2 * self.n

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        return self.draw(self.prompt, task, self.n)

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Sequence[ModelCall] | Answer:
        candidates = {reply.sample: reply.content for reply in replies if reply.round == 1}
        verdicts = [marked_word(reply.content, "verdict") for reply in replies if reply.round == 2]
        if not verdicts:
            return [self._check(task, candidate, sample) for sample, candidate in candidates.items()]
        answers = [final_answer(candidate) for candidate in candidates.values()]
        # With none held to be right, all of them weigh the same.
        approved = [float(verdict == "right") for verdict in verdicts]
        votes = majority(answers, approved if any(approved) else None)
        return Answer(text=votes[0].answer, detail={"verdicts": verdicts, "votes": votes_detail(votes)})

    def _check(self, task: TaskView, candidate: str, sample: int) -> ModelCall:
        text = self.fill(self.check_prompt, task, candidate=fenced(candidate))
        return self.ask(text, stage=2, sample=sample, temperature=self.check_temperature)
