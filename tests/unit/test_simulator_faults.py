"""Which request gets which fault, and what a user is told about a fault or task file that makes no sense."""

from pathlib import Path
from typing import Any

import pytest

from paretoken.errors import InputError
from paretoken.simulator.faults import Fault, FaultPlan, read_faults
from paretoken.simulator.tasks import read_tasks
from paretoken.simulator.wire import ChatRequest


def ask(text: str = "hello", **fields: Any) -> ChatRequest:
    return ChatRequest.model_validate(
        {"model": "sim-small", "messages": [{"role": "user", "content": text}], **fields}
    )


def picked(plan: FaultPlan, requests: list[ChatRequest]) -> list[str | None]:
    return [fault.kind if (fault := plan.pick(request)) else None for request in requests]


@pytest.mark.parametrize(
    ("faults", "requests", "expected"),
    [
        pytest.param([], [ask()], [None], id="none"),
        pytest.param([{"kind": "html"}], [ask(), ask()], ["html", "html"], id="all"),
        pytest.param([{"kind": "html", "count": 1}], [ask(), ask()], ["html", None], id="count"),
        pytest.param(
            [{"kind": "html", "count": 1}, {"kind": "reset", "count": 1}],
            [ask(), ask(), ask()],
            ["html", "reset", None],
            id="one after the other",
        ),
        pytest.param(
            [{"kind": "html", "contains": "task 7", "count": 1}],
            [ask("task 1"), ask("this is task 7"), ask("task 7")],
            [None, "html", None],
            id="only requests that fit use up the count",
        ),
        pytest.param(
            [{"kind": "html", "model": "sim-large"}],
            [ask(), ask(model="sim-large")],
            [None, "html"],
            id="model",
        ),
        pytest.param(
            [{"kind": "truncated_stream"}],
            [ask(), ask(stream=True)],
            [None, "truncated_stream"],
            id="streams only",
        ),
    ],
)
def test_pick(faults: list[dict[str, Any]], requests: list[ChatRequest], expected: list[str | None]) -> None:
    assert picked(FaultPlan([Fault(**fault) for fault in faults], seed=1), requests) == expected


def test_a_probability_is_drawn_with_the_seed() -> None:
    faults = [Fault(kind="html", probability=0.25)]
    first, again, other = (picked(FaultPlan(faults, seed=seed), [ask()] * 1000) for seed in (1, 1, 2))
    assert first == again != other
    assert first.count("html") == pytest.approx(250, abs=50)  # sqrt(1000 * 0.25 * 0.75) = 13.7


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense", "the text: Invalid JSON"),
        ("{}", "the text: Input should be a valid array"),
        ('[{"kind": "htlm"}]', "0.kind: Value error, no such kind of fault 'htlm': did you mean 'html'?"),
        ('[{"kind": "html", "cuont": 1}]', "0.cuont: Extra inputs are not permitted"),
        ('[{"kind": "html", "probability": 2}]', "0.probability: Input should be less than or equal to 1"),
    ],
)
def test_faults_that_make_no_sense(text: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        read_faults(text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read"),
        ('{"id": "a", "goal": "g"}\n\n{"id": "b"}', "line 3: goal: Field required"),
        ('{"id": "a", "goal": "g"}\n{"id": ', "line 2: the line: Invalid JSON"),
        ('{"id": "a", "goal": "g", "difficulty": "tough"}', "line 1: difficulty"),
    ],
)
def test_task_files_that_make_no_sense(tmp_path: Path, content: str | None, told: str) -> None:
    path = tmp_path / "tasks.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError) as error:
        read_tasks(path)
    assert str(path) in str(error.value)
    assert told in str(error.value)


def test_references_that_are_json_are_answered_as_json_text(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        '{"id": "a", "goal": "Profile", "reference": {"rows": 3}, "checks": []}\n{"id":"b","goal":"B"}'
    )
    book = read_tasks(path)
    task = book.find("Profile this")
    assert task is not None
    assert task.right_answer == '{"rows": 3}'
    assert book.find("B") is None  # without a reference nothing is known
