"""Bodies that come with status 200, and what each is worth."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.usage import UNKNOWN_USAGE, Usage
from workers.gateway.completion import read_body
from workers.gateway.stream import StreamedBody

RAW_USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
USAGE = Usage(input_tokens=10, output_tokens=3, total_tokens=13)


def body(content: Any = "4", finish_reason: Any = "stop", **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return {"id": "r-1", "choices": [choice], "usage": RAW_USAGE} | fields


USED: dict[str, tuple[Any, str, Usage]] = {
    "text": (body(), "4", USAGE),
    "parts": (body([{"type": "text", "text": "a"}, {"type": "image"}, "b", None]), "ab", USAGE),
    "no finish reason": (body(finish_reason=None), "4", USAGE),
    "usage missing": ({"choices": body()["choices"]}, "4", UNKNOWN_USAGE),
    "usage null": (body(usage=None), "4", UNKNOWN_USAGE),
    "usage nonsense": (body(usage=["?"]), "4", UNKNOWN_USAGE),
    "error null": (body(error=None), "4", USAGE),
    "refusal": (
        body(choices=[{"message": {"content": None, "refusal": "I won't"}, "finish_reason": "stop"}]),
        "I won't",
        USAGE,
    ),
    "NUL and lone surrogate": (body("a\0b\ud800"), "a\0b\ud800", USAGE),
    "more choices than asked for": (
        body(choices=[*body("1st")["choices"], *body("2nd")["choices"]]),
        "1st",
        USAGE,
    ),
}


@pytest.mark.parametrize(("sent", "content", "usage"), USED.values(), ids=USED.keys())
def test_used(sent: Any, content: str, usage: Usage) -> None:
    outcome = read_body(json.dumps(sent).encode(), json_object=False)
    assert (outcome.status, outcome.disposition, outcome.error) == ("ok", "used", None)
    assert (outcome.content, outcome.usage) == (content, usage)


SPENT = {"prompt_tokens": 10, "completion_tokens": 64, "completion_tokens_details": {"reasoning_tokens": 64}}

FLAWED: dict[str, tuple[Any, str, str, str | None]] = {
    # body, class, next, content
    "cut by length": (body("4 is", "length"), "truncated", "retry_once", "4 is"),
    "reasoning ate it all": (body("", "length", usage=SPENT), "empty_output", "trial_fails", None),
    "nothing said": (body(None), "empty_output", "trial_fails", None),
    "blanks said": (body(" \n"), "empty_output", "trial_fails", " \n"),
    "cut before anything, usage unknown": (
        body("", "length", usage=None),
        "empty_output",
        "trial_fails",
        None,
    ),
    "nothing said, nothing spent": (body("", usage=None), "bad_response", "retry", None),
    "nothing said, 0 tokens": (body("", usage={"completion_tokens": 0}), "bad_response", "retry", None),
    "withheld": (body("", "content_filter"), "content_filter", "fail", None),
    "no choices": (body(choices=[]), "bad_response", "retry", None),
    "choices null": (body(choices=None), "bad_response", "retry", None),
    "choices a mapping": (body(choices={"0": {}}), "bad_response", "retry", None),
    "choice null": (body(choices=[None]), "bad_response", "retry", None),
    "message null": (body(choices=[{"message": None}]), "bad_response", "retry", None),
    "error": ({"error": {"message": "upstream"}, "choices": None}, "bad_response", "retry", None),
    "error beside choices": (body(error={"message": "upstream"}), "bad_response", "retry", None),
    "error in a choice": (
        body(choices=[{"message": {"content": "4"}, "error": {"message": "died"}}]),
        "bad_response",
        "retry",
        None,
    ),
    "error of quota": ({"error": {"code": "insufficient_quota"}}, "quota_exhausted", "pause_run", None),
    "a string": ("hello", "bad_response", "retry", None),
    "a list": ([body()], "bad_response", "retry", None),
    "null": (None, "bad_response", "retry", None),
}


@pytest.mark.parametrize(("sent", "error", "disposition", "content"), FLAWED.values(), ids=FLAWED.keys())
def test_flawed(sent: Any, error: str, disposition: str, content: str | None) -> None:
    outcome = read_body(json.dumps(sent).encode(), json_object=False)
    assert (outcome.status, outcome.error, outcome.disposition) == ("error", error, disposition)
    assert outcome.content == content
    assert outcome.message


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"  ",
        b"<!doctype html><title>Sign in</title>",
        b"OK",
        b'{"choices": [',
        b"[" * 200_000,
        b'{"id": ' + b"9" * 5000 + b"}",
        b"\x1f\x8b\x08garbage",
        b"\xff\xfe{",
    ],
    ids=["empty", "blank", "HTML", "text", "cut", "deep", "long number", "gzip", "UTF-16"],
)
def test_no_completion_at_all(sent: bytes) -> None:
    outcome = read_body(sent, json_object=False)
    assert (outcome.status, outcome.error, outcome.usage) == ("error", "bad_response", UNKNOWN_USAGE)


def test_id_is_saved_from_broken_json() -> None:
    outcome = read_body(json.dumps(body()).encode()[:-9], json_object=False)
    assert (outcome.error, outcome.response_id) == ("bad_response", "r-1")


def test_html_is_named_by_its_title() -> None:
    outcome = read_body(b"<html><head><title>Sign in</title></head>", json_object=False)
    assert outcome.message == "HTTP 200 with an HTML page 'Sign in' instead of a completion"


def test_usage_and_id_of_a_flawed_answer_are_kept() -> None:
    outcome = read_body(json.dumps(body(choices=[])).encode(), json_object=False)
    assert (outcome.usage, outcome.raw_usage, outcome.response_id) == (USAGE, RAW_USAGE, "r-1")


def test_usage_survives_a_text_that_is_not_utf8() -> None:
    sent = json.dumps(body("caf\u00e9"), ensure_ascii=False).encode("latin-1")
    outcome = read_body(sent, json_object=False)
    assert (outcome.error, outcome.usage, outcome.content) == ("bad_response", USAGE, None)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"plan": 1}', None),
        (' {"plan": 1}\n', None),
        ('```json\n{"plan": 1}\n```', "invalid_output"),
        ("[1]", "invalid_output"),
        ('{"plan": ', "invalid_output"),
        ("plan", "invalid_output"),
    ],
)
def test_asked_for_a_json_object(content: str, error: str | None) -> None:
    outcome = read_body(json.dumps(body(content)).encode(), json_object=True)
    assert (outcome.error, outcome.content, outcome.usage) == (error, content, USAGE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"plan": "", "result": 1, "more": 2}', None),
        ('{"plan": ""}', "the output is not the JSON object with result that was asked for"),
        ("[]", "the output is not the JSON object with plan, result that was asked for"),
    ],
)
def test_asked_for_keys_of_a_json_object(content: str, message: str | None) -> None:
    sent = json.dumps(body(content)).encode()
    outcome = read_body(sent, json_object=True, json_keys=["plan", "result"])
    assert (outcome.message, outcome.error) == (message, message and "invalid_output")


DEEP = json.loads("[" * 600 + "]" * 600)


@pytest.mark.parametrize("arguments", ["x" * 1_000_000, float("inf"), DEEP], ids=["huge", "infinite", "deep"])
def test_tool_calls_that_json_cannot_hold_are_none(arguments: Any) -> None:
    calls = [{"id": "c1", "function": {"name": "ls", "arguments": arguments}}]
    sent = body(choices=[{"message": {"content": "text", "tool_calls": calls}, "finish_reason": "stop"}])
    outcome = read_body(json.dumps(sent).replace("Infinity", "1e999").encode(), json_object=False)
    assert (outcome.status, outcome.tool_calls) == ("ok", None)


def test_tool_calls_are_an_answer_without_text() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    message = {"content": None, "tool_calls": [call, None]}
    sent = body(choices=[{"message": message, "finish_reason": "tool_calls"}])
    outcome = read_body(json.dumps(sent).encode(), json_object=True)
    assert (outcome.status, outcome.tool_calls, outcome.content) == ("ok", [call], None)


@pytest.mark.parametrize(
    "usage",
    [{"n": "x" * 20_000}, {"n": float("inf")}],
    ids=["huge", "infinite"],
)
def test_raw_usage_that_json_cannot_hold_is_dropped(usage: Any) -> None:
    sent = json.dumps(body(usage=usage)).replace("Infinity", "1e999").encode()
    assert read_body(sent, json_object=False).raw_usage is None


def test_identifiers_are_plain_and_short() -> None:
    outcome = read_body(json.dumps(body(id="a\0\n" + "b" * 300)).encode(), json_object=False)
    assert outcome.response_id == "a\\u0000 " + "b" * (200 - 8 - 1) + "…"
    assert read_body(json.dumps(body(id=17)).encode(), json_object=False).response_id is None


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
_KEYS = st.sampled_from(
    [
        *("id", "choices", "message", "content", "delta", "finish_reason", "usage", "error", "code", "index"),
        *("tool_calls", "text", "prompt_tokens", "completion_tokens", "total_tokens", "function", "refusal"),
    ]
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(value=_VALUES, streamed=st.booleans())
def test_whatever_comes_there_is_an_outcome(value: Any, streamed: bool) -> None:
    if streamed:
        stream = StreamedBody()
        stream.add(value)
        sent = stream.content()
    else:
        sent = json.dumps(value).encode()
    outcome = read_body(sent, json_object=False)
    assert (outcome.status == "ok") == (outcome.disposition == "used") == (outcome.error is None)
