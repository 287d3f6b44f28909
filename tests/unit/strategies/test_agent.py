"""The agent, against hand-made replies: what it asks, which tools it wants run, and how it ends."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from workers.strategies import (
    Answer,
    Ended,
    ModelCall,
    Reply,
    Strategy,
    StrategyInvalid,
    TaskView,
    ToolStep,
    strategy,
)
from workers.tools import ToolCall, ToolResult

TASK = TaskView(task_id="t1", goal="How many rows?", files={"a.csv": "x\n1\n", "b.csv": "y\n"})


def agent(**params: Any) -> Strategy:
    return strategy("agent", {"model": "m", **params})


def wire(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def reply(stage: int = 1, content: str = "", *calls: Mapping[str, Any], **more: Any) -> Reply:
    return Reply(round=stage, sample=1, content=content, tool_calls=calls, **more)


def tool_step(built: Strategy, *replies: Reply) -> ToolStep:
    step = built.proceed(TASK, replies)
    assert isinstance(step, ToolStep)
    return step


def after(built: Strategy, last: Reply, *results: ToolResult) -> ModelCall:
    (call,) = built.after_tools(TASK, [last], results)
    return call


def test_the_opening_names_the_files_and_offers_the_tools() -> None:
    (call,) = agent(tools=["list_files", "query_csv"], temperature=0.0).opening(TASK)
    assert [message["role"] for message in call.messages] == ["system", "user"]
    assert call.messages[1]["content"] == "How many rows?\n\nFiles:\n- a.csv\n- b.csv"
    assert [tool["function"]["name"] for tool in call.extra["tools"]] == ["list_files", "query_csv"]
    assert (call.response_format, call.json_keys, call.temperature) == ("text", (), 0.0)


def test_a_conversation_grows_by_the_models_message_and_a_result_for_each_call() -> None:
    built = agent()
    last = reply(1, "", wire("c1", "list_files", "{}"), wire(None, "read_file", {"name": "a.csv"}))
    step = tool_step(built, last)
    assert step.calls == [
        ToolCall(id="c1", name="list_files", arguments="{}"),
        ToolCall(id="call_1_2", name="read_file", arguments='{"name": "a.csv"}'),
    ]
    call = after(
        built,
        last,
        ToolResult(id="c1", name="list_files", text="a.csv"),
        ToolResult(id="call_1_2", name="read_file", text="x\n1"),
    )
    assert (call.round, call.sample) == (2, 1)
    assert call.messages[:2] == built.opening(TASK)[0].messages
    assert call.messages[2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                wire("c1", "list_files", "{}"),
                wire("call_1_2", "read_file", '{"name": "a.csv"}'),
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.csv"},
        {"role": "tool", "tool_call_id": "call_1_2", "content": "x\n1"},
    ]
    assert call.extra == built.opening(TASK)[0].extra


def test_later_rounds_go_on_from_what_was_asked() -> None:
    asked = [{"role": "user", "content": "the whole conversation"}]
    last = reply(3, "Let me see.", wire("c9", "list_files", "{}"), messages=asked)
    call = after(agent(), last, ToolResult(id="c9", name="list_files", text="a.csv"))
    assert call.round == 4
    assert call.messages[0] == asked[0]
    assert call.messages[1]["content"] == "Let me see."


def test_what_a_gateway_adds_to_a_tool_call_goes_back_to_it() -> None:
    signed = wire("c1", "list_files", "{}") | {"extra_content": {"google": {"thought_signature": "s"}}}
    last = reply(1, "", signed)
    call = after(agent(), last, ToolResult(id="c1", name="list_files", text=""))
    assert call.messages[2]["tool_calls"] == [signed]


def test_a_reply_without_tool_calls_is_the_answer() -> None:
    step = agent().proceed(TASK, [reply(1, "", wire("c", "list_files", "{}")), reply(2, "336")])
    assert step == Answer(text="336", detail={"steps": 2})


@pytest.mark.parametrize(
    ("stage", "latencies_ms", "ended"),
    [
        (2, [100, 100], None),
        (3, [100, 100, 100], "steps"),
        (2, [4000, 6001], "wall_time"),  # 10.001 s > 10 s
        (2, [4000, None], None),
    ],
)
def test_limits_end_the_trial(stage: int, latencies_ms: Sequence[int | None], ended: str | None) -> None:
    replies = [
        reply(number, "", wire("c", "list_files", "{}"), latency_ms=latency_ms)
        for number, latency_ms in enumerate(latencies_ms, start=1)
    ]
    assert len(replies) == stage
    step = agent(max_steps=3, wall_time_s=10).proceed(TASK, replies)
    assert (step.reason if isinstance(step, Ended) else None) == ended


def test_a_last_step_that_answers_is_an_answer() -> None:
    assert isinstance(agent(max_steps=1).proceed(TASK, [reply(1, "336")]), Answer)


def test_more_tool_calls_than_a_step_runs_are_told_so() -> None:
    last = reply(1, "", *(wire(f"c{number}", "list_files", "{}") for number in range(17)))
    step = tool_step(agent(), last)
    assert len(step.calls) == 16
    call = after(agent(), last, *(ToolResult(id=c.id, name=c.name, text="ok") for c in step.calls))
    assert [message["content"] for message in call.messages[-2:]] == [
        "ok",
        "Error: not run, at most 16 calls a message are",
    ]


def said(**fields: Any) -> str:
    return json.dumps({"plan": "p", "actions": [], "result": None} | fields)


def test_the_json_protocol_shows_the_tools_in_its_prompt_and_asks_for_an_object() -> None:
    (call,) = agent(protocol="json").opening(TASK)
    assert '"name": "query_csv"' in str(call.messages[0]["content"])
    assert (call.response_format, call.json_keys, call.extra) == ("json", ("plan", "actions", "result"), {})


def test_the_json_protocol_runs_actions_and_sends_back_what_they_give() -> None:
    built = agent(protocol="json")
    content = said(actions=[{"tool": "read_file", "arguments": {"name": "a.csv"}}, {"tool": "list_files"}])
    step = tool_step(built, reply(1, content))
    assert step.calls == [
        ToolCall(id="1", name="read_file", arguments='{"name": "a.csv"}'),
        ToolCall(id="2", name="list_files", arguments="{}"),
    ]
    call = after(
        built,
        reply(1, content),
        ToolResult(id="1", name="read_file", text="x"),
        ToolResult(id="2", name="list_files", text="a.csv"),
    )
    assert call.messages[2:] == [
        {"role": "assistant", "content": content},
        {
            "role": "user",
            "content": "Action 1 (read_file) gave:\n```\nx\n```\n\nAction 2 (list_files) gave:\n```\na.csv\n```",
        },
    ]


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (said(result="336"), "336"),
        (said(result={"rows": 336}), '{"rows": 336}'),
        (said(result=""), ""),
        (said(result="336", actions=[{"tool": "list_files"}]), None),  # actions first
        (said(), None),
        (said(actions="all of them"), None),
        (said(actions=["list_files"]), None),
        ("", None),  # tool calls where JSON was asked for
        ("[" * 100_000, None),
    ],
)
def test_the_json_protocol_ends_with_a_result(content: str, answer: str | None) -> None:
    built = agent(protocol="json")
    step = built.proceed(TASK, [reply(1, content)])
    assert (step.text if isinstance(step, Answer) else None) == answer
    if isinstance(step, ToolStep) and not step.calls:
        call = after(built, reply(1, content))
        assert "neither a result nor an action" in str(call.messages[-1]["content"])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tools": ["shell"]}, "unknown tool 'shell'; tools: list_files"),
        ({"max_steps": 0}, "max_steps = 0"),
        ({"protocol": "xml"}, "protocol = 'xml'"),
        ({"json_system": "Use JSON."}, "the placeholder {tools} is missing"),
        ({"prompt": "{reference}"}, "unknown placeholder {reference}"),
    ],
)
def test_wrong_parameters_are_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(StrategyInvalid) as refused:
        agent(**params)
    assert message in str(refused.value)


def test_calls_of_a_trial() -> None:
    assert agent(max_steps=7).calls == (1, 7)
    assert (agent().opening_samples, agent().models) == (1, {"m"})
