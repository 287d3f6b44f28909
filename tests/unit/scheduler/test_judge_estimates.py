"""How many calls judges can make, and what they can cost at the most."""

from pathlib import Path

import pytest

from scheduler.experiment import load
from scheduler.judges import judge_plans
from tests.experiments import write_experiment
from workers.judges import judge
from workers.reservation import prompt_bytes
from workers.strategies import TaskView

STRATEGIES = "".join(f'[[strategies]]\nname = "{name}"\nkind = "single"\n' for name in "abcd")


def section(kind: str, more: str = "") -> str:
    return f'[[judges]]\nname = "j"\nkind = "{kind}"\n{more}\n'


@pytest.mark.parametrize(
    ("judges", "calls"),
    [
        # Of four strategies: six pairs, three neighbours; both orders. Five tasks, two repeats.
        (section("pairwise"), 6 * 2 * 10),
        (section("pairwise", 'pairs = "neighbours"'), 3 * 2 * 10),
        (section("pairwise", "pairs = 2"), 2 * 2 * 10),
        (section("pairwise", "pairs = 100"), 6 * 2 * 10),
        (section("listwise", "passes = 3"), 3 * 10),
        (section("rubric"), 4 * 10),
    ],
)
def test_calls(tmp_path: Path, judges: str, calls: int) -> None:
    [found] = load(
        write_experiment(tmp_path, tasks=5, top="repeats = 2", strategies=STRATEGIES + judges)
    ).estimates()
    assert found.calls == calls
    assert found.cost_usd is not None


def test_one_strategy_is_compared_with_nobody(tmp_path: Path) -> None:
    one = STRATEGIES.partition('[[strategies]]\nname = "b"')[0]
    for kind in ("pairwise", "listwise", "rubric"):
        [found] = load(write_experiment(tmp_path, strategies=one + section(kind))).estimates()
        assert (found.calls, found.cost_usd) == (0, 0)


def test_the_bound_covers_the_longest_answers(tmp_path: Path) -> None:
    # sim-small costs $0.15 and $0.60 per 1,000,000 tokens; an answer has 200 tokens at the most, and so has a reply.
    loaded = load(
        write_experiment(tmp_path, tasks=1, strategies=STRATEGIES + section("listwise", "passes = 1"))
    )
    [found] = loaded.estimates()
    assert found.cost_usd is not None
    bare = judge("listwise", {"model": "m"}).ask(TaskView(task_id="", goal=loaded.tasks[0].line.goal), [""])
    least = prompt_bytes(bare.messages) + 4 * 200
    assert found.cost_usd * 1e6 >= least * 0.15 + 200 * 0.6
    assert found.cost_usd * 1e6 <= (least + 5 * 64) * 0.15 + 200 * 0.6
    assert found.line() == "Judge j: up to 1 call when the trials are over, at most $0.0003."


def test_a_prompt_that_repeats_the_task_and_the_answers_is_bounded_so(tmp_path: Path) -> None:
    prompt = 'prompt = "{goal} {answers} {goal} {answers} {goal}"'
    loaded = load(write_experiment(tmp_path, strategies=STRATEGIES + section("pairwise", prompt)))
    [planned] = judge_plans(loaded.document())
    assert (planned.task_copies, planned.answer_copies, planned.calls) == (3, 2, 2)
