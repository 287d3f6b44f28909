"""Simulated models as verifiers, critics, debaters and agents, with the strategies' own prompts and tools."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paretoken.simulator.answering import Answered, answer
from paretoken.simulator.models import MODELS
from paretoken.simulator.tasks import NO_ANSWER, SimulatedTask, TaskBook, read_tasks
from paretoken.simulator.wire import ChatRequest, completion, stream_events
from workers.checks import CheckContext, check, run_checks
from workers.gateway.completion import read_body
from workers.gateway.stream import StreamedBody
from workers.strategies import Answer, ModelCall, Reply, Strategy, TaskView, ToolStep, strategy
from workers.tools import Folder, run_tool

ARENA = Path(__file__).parents[2] / "examples" / "arena" / "tasks.jsonl"
TASK = SimulatedTask(id="rows", goal="Count the rows.", difficulty="medium", reference="336")
BOOK = TaskBook([TASK])
VIEW = TaskView(task_id="rows", goal=TASK.goal, files={"birds.csv": "species,mass\nAdelie,3700\n"})


@pytest.mark.parametrize("task", read_tasks(ARENA)._tasks, ids=lambda task: task.id)
def test_no_mistake_passes_its_tasks_own_checks(task: SimulatedTask) -> None:
    context = CheckContext(files=task.contents)
    checks = [check(spec) for spec in task.checks]
    assert run_checks(checks, task.right_answer, context)[0] is True
    assert [run_checks(checks, wrong, context)[0] for wrong in task.mistakes] == [False] * len(task.mistakes)
    assert len(task.mistakes) >= 3


def test_where_every_mistake_would_pass_there_is_no_answer() -> None:
    easy = SimulatedTask(id="e", goal="Say.", reference="7", checks=[{"kind": "non_empty"}])
    assert easy.mistakes == [NO_ANSWER]


def said(call: ModelCall, number: int, model: str = "sim-medium") -> Answered:
    fields: dict[str, Any] = {"model": model, "messages": list(call.messages), **call.extra}
    if call.response_format == "json":
        fields["response_format"] = {"type": "json_object"}
    request = ChatRequest.model_validate(fields)
    return answer(request, model=MODELS[model], tasks=BOOK, draw=f"{number}", latency_sigma=0)


def following(built: Strategy, *contents: Sequence[str]) -> Sequence[ModelCall]:
    replies = [
        Reply(round=stage, sample=sample, content=content)
        for stage, texts in enumerate(contents, start=1)
        for sample, content in enumerate(texts, start=1)
    ]
    step = built.proceed(VIEW, replies)
    assert not isinstance(step, Answer)
    assert isinstance(step, Sequence)
    return step


RIGHT, WRONG = "I count.\nAnswer:\n336", "I count.\nAnswer:\n335"
# sim-medium can check a medium task with 1 / (1 + exp(-6 (0.60 + 0.25 - 0.50))) = 0.891; else it is a toss.
CHECKED = 0.891
JUDGED = (1 + CHECKED) / 2


@pytest.mark.parametrize(
    ("kind", "params", "candidates", "pattern", "expected"),
    [
        ("verifier_rerank", {"n": 2}, [RIGHT, WRONG], r"Score: ([7-9]|10)$", [JUDGED, 1 - JUDGED]),
        ("best_of_n", {"n": 2}, [RIGHT, WRONG], r"Verdict: right$", [JUDGED, 1 - JUDGED]),
        ("self_refine", {}, [RIGHT], r"Verdict: good$", [JUDGED]),
        ("self_refine", {}, [WRONG], r"Verdict: good$", [1 - JUDGED]),
        # Both are judged: the right one alone is held right, or both are or neither, and then it is a toss.
        (
            "verifier_rerank",
            {"n": 2, "mode": "pick"},
            [RIGHT, WRONG],
            r"Best: 1$",
            [JUDGED**2 + JUDGED * (1 - JUDGED)],
        ),
    ],
)
def test_judgements_are_right_as_often_as_checking_is(
    kind: str, params: dict[str, Any], candidates: list[str], pattern: str, expected: list[float]
) -> None:
    calls = following(strategy(kind, {"model": "m", **params}), candidates)
    shares = [
        sum(bool(re.search(pattern, said(call, number).content)) for number in range(500)) / 500
        for call in calls
    ]
    # The standard error of a share of 500 is at most sqrt(0.25 / 500) = 0.022.
    assert shares == pytest.approx(expected, abs=0.07)
    assert all(said(call, 1).right is None for call in calls)


def test_a_debater_takes_over_a_right_answer_and_else_tries_again() -> None:
    debate = strategy("debate", {"model": "m"})
    one_right, none_right = (
        Counter(said(following(debate, texts)[0], number).right for number in range(500))
        for texts in ([RIGHT, WRONG], [WRONG, WRONG])
    )
    assert one_right[True] / 500 == pytest.approx(CHECKED, abs=0.07)
    # As with steps alone: 1 / (1 + exp(-6 (0.60 + 0.15 - 0.50))) = 0.818
    assert none_right[True] / 500 == pytest.approx(0.818, abs=0.07)


def test_an_aggregator_answers_with_one_of_the_debaters_answers() -> None:
    debate = strategy("debate", {"model": "m", "rounds": 1})
    wrong = f"Answer:\n{TASK.mistakes[0]}"
    (call,) = following(debate, [f"Answer:\n{TASK.right_answer}", wrong])
    answers = Counter(said(call, number).content.rpartition("Answer:\n")[2] for number in range(300))
    assert set(answers) == {TASK.right_answer, TASK.mistakes[0]}


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_lists_describes_queries_and_answers(protocol: str, streamed: bool) -> None:
    agent = strategy("agent", {"model": "sim-large", "protocol": protocol})
    folder = Folder(task_files={name: text.encode() for name, text in VIEW.files.items()})
    (call,) = agent.opening(VIEW)
    used: list[str] = []
    replies: list[Reply] = []
    while True:
        reply = replied(call, streamed=streamed)
        replies.append(reply)
        step = agent.proceed(VIEW, replies)
        if isinstance(step, Answer):
            break
        assert isinstance(step, ToolStep)
        results = [
            run_tool(wanted, folder, allowed=step.allowed, most_chars=step.most_chars)
            for wanted in step.calls
        ]
        used += [f"{result.name}: {result.text.splitlines()[0]}" for result in results]
        (call,) = agent.after_tools(VIEW, replies, results)
    assert used == [
        "list_files: birds.csv (25 bytes)",
        "describe_csv: birds.csv: 1 rows, table birds in SQL",
        "query_csv: n",
    ]
    assert step.text in {TASK.right_answer, *TASK.mistakes}
    assert step.detail == {"steps": 4}


def replied(call: ModelCall, *, streamed: bool) -> Reply:
    """What a client makes of the simulator's message."""
    answered = said(call, 1, "sim-large")
    body = completion(
        response_id="r1",
        created=0,
        model=call.model,
        content=answered.content,
        tool_calls=answered.tool_calls,
        finish_reason="tool_calls" if answered.tool_calls else "stop",
        usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    )
    sent = StreamedBody()
    for event in stream_events(body, include_usage=True):
        sent._take(event.decode().removeprefix("data: "))
    content = sent.content() if streamed else json.dumps(body).encode()
    outcome = read_body(content, json_object=call.response_format == "json", json_keys=call.json_keys)
    assert outcome.status == "ok", outcome
    return Reply(
        round=call.round,
        sample=1,
        content=outcome.content or "",
        tool_calls=outcome.tool_calls or (),
        messages=call.messages,
    )
