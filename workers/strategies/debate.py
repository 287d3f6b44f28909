"""Several debaters answer, read each other and answer again (Du et al. 2023, arXiv 2305.14325)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from workers.strategies import chain_of_thought
from workers.strategies.base import Answer, ModelCall, Reply, TaskView
from workers.strategies.chain_of_thought import final_answer
from workers.strategies.prompts import Prompted, TaskPrompt, fenced, numbered, template
from workers.strategies.voting import Vote, majority, votes_detail

DEBATE_PROMPT = """{goal}

{files}

This was your own answer:

{own}

These are the answers of the others:

{others}

Look for mistakes in all of them, your own included, and think step by step. Then write a line that starts with \
`Answer:` and after it your final answer alone, in the format that is asked for above."""

AGGREGATOR_PROMPT = """{goal}

{files}

Several people have debated this and do not agree. Their last answers:

{answers}

Decide which of them is right, or give the right answer yourself. Think step by step, then write a line that \
starts with `Answer:` and after it the final answer alone, in the format that is asked for above."""


class Debate(Prompted):
    """Debaters answer in rounds, each seeing the others' last round; then a vote, or an aggregator on a tie."""

    kind: ClassVar[str] = "debate"
    calls_formula: ClassVar[str] = "debaters × rounds, + 1 when the first place of the vote is shared"

    debaters: int = Field(default=2, ge=2, le=100)
    rounds: int = Field(default=2, ge=1, le=20)
    temperature: float | None = Field(default=0.7, ge=0, le=2)
    """Of the debaters. At 0, debaters with the same model all say the same."""
    debater_models: Sequence[str] = ()
    """One model per debater; default: `model` for all."""
    decision: Literal["aggregator", "vote"] = "aggregator"
    """What settles a vote whose first place is shared: one more call, or who was seen first."""
    aggregator_model: str = ""
    """Default: `model`."""
    aggregator_temperature: float = Field(default=0, ge=0, le=2)
    prompt: TaskPrompt = chain_of_thought.PROMPT
    debate_prompt: Annotated[str, template("goal", "files", "own", "others", needs="others")] = DEBATE_PROMPT
    aggregator_prompt: Annotated[str, template("goal", "files", "answers", needs="answers")] = (
        AGGREGATOR_PROMPT
    )

    @model_validator(mode="after")
    def _one_model_each(self) -> "Debate":
        if self.debater_models and len(self.debater_models) != self.debaters:
            raise ValueError(
                f"debater_models names {len(self.debater_models)} models for {self.debaters} debaters"
            )
        return self

    @property
    def models(self) -> frozenset[str]:
        aggregator = {self.aggregator_model or self.model} if self.decision == "aggregator" else set()
        return frozenset(self.debater_models or {self.model}) | aggregator

    @property
    def opening_samples(self) -> int:
        return self.debaters

    @property
    def calls(self) -> tuple[int, int]:
        turns = self.debaters * self.rounds
        return turns, turns + (self.decision == "aggregator")

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        text = self.fill(self.prompt, task)
        return [self._turn(text, stage=1, debater=debater) for debater in range(1, self.debaters + 1)]

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Sequence[ModelCall] | Answer:
        stage = replies[-1].round
        said = {reply.sample: reply.content for reply in replies if reply.round == stage}
        if stage > self.rounds:
            votes = _votes([reply.content for reply in replies if reply.round == self.rounds])
            return Answer(
                text=final_answer(said[1]), detail={"votes": votes_detail(votes), "aggregator": True}
            )
        if stage < self.rounds:
            return [self._reply_to(said, task, stage=stage + 1, debater=debater) for debater in said]
        votes = _votes(list(said.values()))
        shared = len(votes) > 1 and votes[0].weight == votes[1].weight
        if shared and self.decision == "aggregator":
            return [self._aggregate(said, task)]
        return Answer(text=votes[0].answer, detail={"votes": votes_detail(votes), "aggregator": False})

    def _reply_to(self, said: Mapping[int, str], task: TaskView, *, stage: int, debater: int) -> ModelCall:
        others = {number: text for number, text in said.items() if number != debater}
        text = self.fill(
            self.debate_prompt, task, own=fenced(said[debater]), others=numbered("Debater", others)
        )
        return self._turn(text, stage=stage, debater=debater)

    def _turn(self, text: str, *, stage: int, debater: int) -> ModelCall:
        model = self.debater_models[debater - 1] if self.debater_models else self.model
        return self.ask(text, stage=stage, sample=debater, model=model)

    def _aggregate(self, said: Mapping[int, str], task: TaskView) -> ModelCall:
        return self.ask(
            self.fill(self.aggregator_prompt, task, answers=numbered("Debater", said)),
            stage=self.rounds + 1,
            sample=1,
            model=self.aggregator_model,
            temperature=self.aggregator_temperature,
        )


def _votes(contents: Sequence[str]) -> Sequence[Vote]:
    return majority([final_answer(content) for content in contents])
