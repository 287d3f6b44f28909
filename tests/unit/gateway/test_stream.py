"""Chunks of a stream, folded into the body of a plain answer."""

import json
from typing import Any

import pytest

from analysis.usage import UNKNOWN_USAGE, Usage
from workers.gateway.completion import read_body
from workers.gateway.outcome import Outcome
from workers.gateway.stream import StreamedBody, is_event_stream

RAW_USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
USAGE = Usage(input_tokens=10, output_tokens=3, total_tokens=13)


def delta(text: Any = None, finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish_reason}
    return {"id": "r-1", "choices": [choice | fields.pop("choice", {})]} | fields


def fold(*chunks: Any) -> Outcome:
    streamed = StreamedBody()
    for chunk in chunks:
        streamed.add(chunk)
    return read_body(streamed.content(), json_object=False)


WHERE_USAGE_STANDS: dict[str, list[Any]] = {
    "after the end, choices empty": [delta("a"), delta("b", "stop"), {"choices": [], "usage": RAW_USAGE}],
    "after the end, delta empty": [delta("a"), delta("b", "stop"), delta(usage=RAW_USAGE)],
    "with the finish reason": [delta("a"), delta("b"), delta(None, "stop", usage=RAW_USAGE)],
    "in the choice": [delta("a"), delta("b"), delta(None, "stop", choice={"usage": RAW_USAGE})],
    "growing in every chunk": [
        delta("a", usage={"prompt_tokens": 10, "completion_tokens": 1}),
        delta("b", usage={"prompt_tokens": 10, "completion_tokens": 2}),
        delta(None, "stop", usage=RAW_USAGE),
    ],
    "null before, null after": [delta("ab", "stop", usage=None), {"usage": RAW_USAGE}, delta(usage=None)],
    "no choices field": [delta("ab", "stop"), {"usage": RAW_USAGE}],
}


@pytest.mark.parametrize("chunks", WHERE_USAGE_STANDS.values(), ids=WHERE_USAGE_STANDS.keys())
def test_usage_wherever_it_stands(chunks: list[Any]) -> None:
    outcome = fold(*chunks)
    assert (outcome.status, outcome.content, outcome.usage) == ("ok", "ab", USAGE)
    assert (outcome.response_id, outcome.finish_reason, outcome.raw_usage) == ("r-1", "stop", RAW_USAGE)


def test_stream_without_usage_is_used_and_unknown() -> None:
    outcome = fold(delta("a"), delta("b", "stop"))
    assert (outcome.status, outcome.content, outcome.usage) == ("ok", "ab", UNKNOWN_USAGE)


def test_without_a_finish_reason_the_text_is_dropped_and_the_usage_kept() -> None:
    outcome = fold(delta("a"), delta("b", usage=RAW_USAGE))
    assert (outcome.status, outcome.error, outcome.content) == ("error", "bad_response", None)
    assert outcome.usage == USAGE


@pytest.mark.parametrize(
    "chunks", [[], [None], ["text"], [[1]], [{}], [{"choices": [None, 1, {"delta": 2}]}]]
)
def test_rubbish_is_no_answer(chunks: list[Any]) -> None:
    assert fold(*chunks).error == "bad_response"


def test_error_in_mid_stream() -> None:
    outcome = fold(delta("a"), {"error": {"message": "overloaded"}, "usage": RAW_USAGE})
    assert (outcome.error, outcome.content, outcome.usage) == ("bad_response", None, USAGE)
    assert outcome.message == "HTTP 200 with the error 'overloaded'"


def test_cut_by_length_and_empty() -> None:
    assert fold(delta("a", "length")).error == "truncated"
    assert fold(delta("", "length", usage=RAW_USAGE)).error == "empty_output"


def test_second_choice_is_not_mixed_in() -> None:
    second = {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    assert fold(delta("a"), second, delta("b", "stop")).content == "ab"


def test_tool_calls_come_in_pieces() -> None:
    def piece(index: int, **function: str) -> dict[str, Any]:
        call = {"index": index, "function": function} | ({"id": f"c{index}"} if "name" in function else {})
        return delta(choice={"delta": {"tool_calls": [call]}})

    outcome = fold(
        piece(0, name="ls", arguments=""),
        piece(0, arguments='{"a"'),
        piece(1, name="cat", arguments="{}"),
        piece(0, arguments=": 1}"),
        delta(None, "tool_calls"),
    )
    assert outcome.tool_calls == [
        {"id": "c0", "type": "function", "function": {"name": "ls", "arguments": '{"a": 1}'}},
        {"id": "c1", "type": "function", "function": {"name": "cat", "arguments": "{}"}},
    ]


def test_first_content_is_no_role_and_no_empty_text() -> None:
    streamed = StreamedBody()
    streamed.add({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    assert streamed.first_content_at is None
    streamed.add(delta("a"))
    first = streamed.first_content_at
    streamed.add(delta("b"))
    assert first is not None and streamed.first_content_at == first


def test_lone_surrogates_survive_the_folding() -> None:
    assert fold(json.loads(json.dumps(delta("a\ud800\0", "stop")))).content == "a\ud800\0"


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("text/event-stream; charset=utf-8", True),
        ("", True),
        ("text/plain", True),
        ("application/json", False),
        ("application/problem+json; x=y", False),
        ("Text/HTML", False),
    ],
)
def test_is_event_stream(content_type: str, expected: bool) -> None:
    assert is_event_stream(content_type) is expected
