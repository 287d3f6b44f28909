"""The judges of an experiment: what each will ask of a run's answers, how many calls that is, and their bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

from analysis.prices import Price
from analysis.wording import counted
from db.judging import JudgePlan
from workers.context import stored_judge
from workers.judges import FRAME_BYTES, Judge, Pairwise
from workers.reservation import bound_cost_usd, prompt_bytes
from workers.strategies import TaskView

_PROBE = "x" * 1000
RESERVED_NAMES = ("checks", "score", "people")
"""What `[ranking] use` may name besides a judge."""


@dataclass(frozen=True, kw_only=True)
class PlannedJudge:
    """A judge of the experiment with all its parameters filled in."""

    name: str
    judge: Judge

    def document(self) -> dict[str, Any]:
        """What is stored with the run; `workers.context.stored_judge` reads it."""
        return {"name": self.name, "kind": self.judge.kind, **self.judge.model_dump(mode="json")}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a judge can take at the most, said before anything is sent."""

    judge: str
    calls: int
    cost_usd: float | None
    """None without a price."""

    def line(self) -> str:
        cost = "cost unknown (no price)" if self.cost_usd is None else f"at most ${self.cost_usd:,.4f}"
        return f"Judge {self.judge}: up to {counted(self.calls, 'call')} when the trials are over, {cost}."


def estimate(
    planned: PlannedJudge,
    *,
    tasks_bytes: Sequence[int],
    repeats: int,
    answer_tokens: Sequence[int],
    price: Price | None,
) -> Estimate:
    """The bound where every trial gives an answer of all the tokens that it may have.

    Args:
        planned: the judge.
        tasks_bytes: of each task in a prompt.
        repeats: of each task.
        answer_tokens: the most that an answer of each strategy can have.
        price: of the judge's model.
    """
    judge, strategies = planned.judge, len(answer_tokens)
    frame = _frame(judge)
    questions = _pairs(judge, strategies) if judge.by_pairs else int(strategies >= 2)
    calls = questions * (strategies if judge.calls is None else judge.calls)
    shown = 2 if judge.by_pairs else 1 if judge.calls is None else strategies
    answers = shown * (max(answer_tokens) + FRAME_BYTES) * frame.answer_copies
    tokens = sum(size * frame.task_copies + frame.prompt_bytes + answers for size in tasks_bytes)
    total = calls * len(tasks_bytes) * repeats
    cost_usd = bound_cost_usd(
        prompt_tokens=tokens * calls * repeats, max_tokens=total * judge.max_tokens, price=price
    )
    return Estimate(judge=planned.name, calls=total, cost_usd=cost_usd)


def _pairs(judge: Judge, strategies: int) -> int:
    every = comb(strategies, 2)
    if not isinstance(judge, Pairwise) or judge.pairs == "all":
        return every
    return max(strategies - 1, 0) if judge.pairs == "neighbours" else min(every, judge.pairs)


def judge_plans(experiment: Mapping[str, Any]) -> list[JudgePlan]:
    """The judges of a run's stored experiment, as planning needs them."""
    return [_plan(section, experiment) for section in experiment["judges"]]


def _plan(section: Mapping[str, Any], experiment: Mapping[str, Any]) -> JudgePlan:
    judge = stored_judge(section)
    price = experiment["prices"].get(judge.model)
    pairs = judge.pairs if isinstance(judge, Pairwise) else "all"
    frame = _frame(judge)
    return JudgePlan(
        judge=section["name"],
        kind=judge.kind,
        model=judge.model,
        pairs=judge.by_pairs,
        neighbours=pairs == "neighbours",
        sample=pairs if isinstance(pairs, int) else None,
        seed=experiment["seed"] or 0,
        calls=judge.calls,
        max_tokens=judge.max_tokens,
        prompt_bytes=frame.prompt_bytes,
        task_copies=frame.task_copies,
        answer_copies=frame.answer_copies,
        input_usd=price and price["input_usd_per_1m"] / 1e6,
        output_usd=price and price["output_usd_per_1m"] / 1e6,
    )


@dataclass(frozen=True, kw_only=True)
class _Frame:
    prompt_bytes: int
    task_copies: int
    answer_copies: int


def _frame(judge: Judge) -> _Frame:
    """The prompt around task and answers, and how often it repeats them: a user's own prompt may."""
    answers = [""] * (2 if judge.by_pairs else 1)
    empty = _bytes(judge, "", answers)
    task = _bytes(judge, _PROBE, answers) - empty
    answer = _bytes(judge, "", [_PROBE, *answers[1:]]) - empty
    return _Frame(
        prompt_bytes=empty,
        task_copies=max(1, round(task / len(_PROBE))),
        answer_copies=max(1, round(answer / len(_PROBE))),
    )


def _bytes(judge: Judge, goal: str, answers: Sequence[str]) -> int:
    return prompt_bytes(judge.ask(TaskView(task_id="", goal=goal), answers).messages)
