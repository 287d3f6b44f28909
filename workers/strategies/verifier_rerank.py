"""n candidates, and a verifier that says which to trust (Cobbe et al. 2021, arXiv 2110.14168).

Adding up the scores of equal answers is the verifier-weighted vote of Li et al. 2022 (arXiv 2206.02336).
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from workers.strategies import chain_of_thought
from workers.strategies.base import Answer, ModelCall, Reply, TaskView
from workers.strategies.chain_of_thought import final_answer
from workers.strategies.marks import marked_number
from workers.strategies.prompts import Prompted, TaskPrompt, fenced, numbered, template
from workers.strategies.voting import majority, votes_detail

MOST_POINTS = 10

SCORE_PROMPT = """Somebody was given this task:

{goal}

{files}

This is the solution:

{candidate}

Check it step by step against the task. Then write a last line `Score: N`, where N is a number from 0 (surely \
wrong) to 10 (surely right)."""

PICK_PROMPT = """Several people were given this task:

{goal}

{files}

These are their solutions:

{candidates}

Check them step by step against the task. Then write a last line `Best: N`, where N is the number of the solution \
that is most likely right."""


class VerifierRerank(Prompted):
    """n candidates; a verifier scores each of them, or picks one from the list."""

    kind: ClassVar[str] = "verifier_rerank"
    calls_formula: ClassVar[str] = '2n; with mode = "pick" n + 1'

    n: int = Field(default=3, ge=2, le=1000)
    """Number of candidates."""
    temperature: float | None = Field(default=0.7, ge=0, le=2)
    """Of the candidates."""
    mode: Literal["score", "pick"] = "score"
    """The verifier scores each candidate in a call of its own, or picks from all of them in one call."""
    choose: Literal["best", "vote"] = "best"
    """With scores: the best candidate, or the answer whose candidates have the most points together."""
    verifier_model: str = ""
    """Default: `model`."""
    verifier_temperature: float = Field(default=0, ge=0, le=2)
    prompt: TaskPrompt = chain_of_thought.PROMPT
    score_prompt: Annotated[str, template("goal", "files", "candidate", needs="candidate")] = SCORE_PROMPT
    pick_prompt: Annotated[str, template("goal", "files", "candidates", needs="candidates")] = PICK_PROMPT

    @property
    def models(self) -> frozenset[str]:
        return frozenset({self.model, self.verifier_model or self.model})

    @property
    def opening_samples(self) -> int:
        return self.n

    @property
    def calls(self) -> tuple[int, int]:
        total = self.n + (1 if self.mode == "pick" else self.n)
        return total, total

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        return self.draw(self.prompt, task, self.n)

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Sequence[ModelCall] | Answer:
        candidates = {reply.sample: reply.content for reply in replies if reply.round == 1}
        verified = [reply.content for reply in replies if reply.round == 2]
        answers = [final_answer(candidate) for candidate in candidates.values()]
        if not verified and self.mode == "pick":
            listed = numbered("Solution", candidates)
            return [self._verify(self.fill(self.pick_prompt, task, candidates=listed), sample=1)]
        if not verified:
            return [
                self._verify(self.fill(self.score_prompt, task, candidate=fenced(candidate)), sample=sample)
                for sample, candidate in candidates.items()
            ]
        return _picked(answers, verified[0]) if self.mode == "pick" else self._scored(answers, verified)

    def _verify(self, text: str, *, sample: int) -> ModelCall:
        return self.ask(
            text, stage=2, sample=sample, model=self.verifier_model, temperature=self.verifier_temperature
        )

    def _scored(self, answers: Sequence[str], verified: Sequence[str]) -> Answer:
        scores = [_score(reply) for reply in verified]
        known = {index: score for index, score in enumerate(scores) if score is not None}
        if not known:
            return _unverified(answers, scores=scores)
        if self.choose == "best":
            return Answer(text=answers[max(known, key=lambda index: known[index])], detail={"scores": scores})
        votes = majority(answers, [score or 0 for score in scores])
        return Answer(text=votes[0].answer, detail={"scores": scores, "votes": votes_detail(votes)})


def _score(reply: str) -> float | None:
    score = marked_number(reply, "score")
    return score if score is not None and score <= MOST_POINTS else None


def _picked(answers: Sequence[str], reply: str) -> Answer:
    best = marked_number(reply, "best")
    if best is None or not best.is_integer() or not 1 <= best <= len(answers):
        return _unverified(answers, picked=None)
    return Answer(text=answers[int(best) - 1], detail={"picked": int(best)})


def _unverified(answers: Sequence[str], **verifier: Any) -> Answer:
    """The verifier said nothing of use: a plain vote, so that the trial is not lost, and said in the detail."""
    votes = majority(answers)
    return Answer(text=votes[0].answer, detail={**verifier, "votes": votes_detail(votes), "unverified": True})
