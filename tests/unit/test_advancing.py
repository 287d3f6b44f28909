"""Next steps of many trials: quick ones share a thread, the others have their own, and none spoils another."""

import threading
from typing import Any

import pytest

from db.advance import DueTrial
from workers import advancing
from workers.advancing import _Case, _steps
from workers.checks import KINDS, is_quick
from workers.checks.programs import Program
from workers.context import TaskContext
from workers.step import Step
from workers.strategies import KINDS as STRATEGIES
from workers.strategies.base import TaskView
from workers.strategies.single import Single


class Run:
    """What a step needs to know of a run."""

    strategies = {1: Single(model="m")}  # noqa: RUF012


def case(number: int, *checks: dict[str, Any]) -> _Case:
    run: Any = Run()
    return _Case(
        trial=DueTrial(trial=number, run=1, task=1, strategy=1, repeat=1, try_=1, version=0),
        run=run,
        task=TaskContext(view=TaskView(task_id="t", goal="g"), check_specs=checks, files={}),
        results=[],
        written={},
    )


SLOW, QUICK = {"kind": "regex", "pattern": "x"}, {"kind": "contains", "text": "x"}


async def test_quick_steps_share_a_thread_and_one_that_fails_is_left_to_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: dict[int, int] = {}
    beside = threading.Barrier(2)

    def decide(trial: DueTrial, *_: object, **__: object) -> Step:
        threads[trial.trial] = threading.get_ident()
        if trial.trial in (1, 3):
            beside.wait(timeout=60)
        if trial.trial == 2:
            raise RuntimeError("chokes")
        return Step()

    monkeypatch.setattr(advancing, "next_step", decide)
    cases = [case(1, QUICK), case(2), case(3, QUICK, SLOW), case(4)]
    steps = await _steps(cases)
    assert threads.keys() == {1, 2, 3, 4}
    assert threads[1] == threads[2] == threads[4] != threads[3]
    ended = [step.finished for _, step in steps if step.finished]
    assert [(each.trial, each.state) for each in ended] == [(2, "review")]
    assert "chokes" in str(ended[0].reason)
    assert len(steps) == 4


def test_which_kinds_may_take_long() -> None:
    """A new kind that starts a process, or computes without end on a hostile answer, belongs here."""
    assert {kind for kind, model in KINDS.items() if not model.quick} == {
        "regex",
        "json_schema",
        "sql",
        "command",
        "python",
    }
    assert not any(model.quick for model in KINDS.values() if issubclass(model, Program))
    assert {kind for kind, model in STRATEGIES.items() if not model.quick} == {"agent"}


def test_a_check_that_nobody_knows_is_not_quick() -> None:
    assert not is_quick({"kind": "horoscope"})
    assert is_quick(QUICK)
