"""What a 200 answer is worth: a completion is taken apart without trusting any part of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.usage import Usage, usage_from_raw
from workers.gateway import classify
from workers.gateway.body import describe, label, parse_json, said_by, storable
from workers.gateway.classify import Verdict
from workers.gateway.outcome import Disposition, Outcome

_LARGEST_RAW_USAGE = 16_384
_LARGEST_TOOL_CALLS = 1_000_000
_ID = re.compile(rb'"id": ?"([^"\\]{1,200})"')
_CUT_SHORT = frozenset({"length", "max_tokens"})


@dataclass(frozen=True, kw_only=True)
class _Choice:
    text: str
    tool_calls: Sequence[Mapping[str, Any]] | None
    finish_reason: str | None


def read_body(content: bytes, *, json_object: bool, json_keys: Sequence[str] = ()) -> Outcome:
    """The outcome of a body that came with status 200."""
    try:
        body = parse_json(content)
    except UnicodeDecodeError:
        return _not_utf8(content)
    except ValueError:
        return _not_json(content)
    if not isinstance(body, Mapping):
        return _bad(f"HTTP 200 with {describe(content)} instead of a completion")
    return read_completion(body, json_object=json_object, json_keys=json_keys)


def read_completion(body: Mapping[str, Any], *, json_object: bool, json_keys: Sequence[str] = ()) -> Outcome:
    """The outcome of a completion object, whether it came at once or as a stream."""
    choice = _first_choice(body.get("choices"))
    if choice is None or body.get("error"):
        return _no_choice(body)
    usage = usage_from_raw(body.get("usage"))
    found = _flaw(choice, usage) or (_no_object(choice, json_keys) if json_object else None)
    verdict, detail = found or (None, None)
    return Outcome(
        status="error" if verdict else "ok",
        disposition=verdict.disposition if verdict else Disposition.USED,
        error=verdict.error if verdict else None,
        message=detail,
        content=choice.text or None,
        finish_reason=choice.finish_reason,
        tool_calls=choice.tool_calls,
        response_id=label(body.get("id")),
        usage=usage,
        raw_usage=_raw_usage(body),
    )


def _flaw(choice: _Choice, usage: Usage) -> tuple[Verdict, str] | None:
    """What keeps a choice from being used, if anything."""
    cut_short = choice.finish_reason in _CUT_SHORT
    if not choice.text.strip() and not choice.tool_calls:
        if choice.finish_reason == "content_filter":
            return classify.CONTENT_FILTER, "the gateway's content filter withheld the answer"
        if usage.output_tokens or (usage.output_tokens is None and cut_short):
            return classify.EMPTY_OUTPUT, f"{_tokens(usage)} spent and no text came"
        return classify.BAD_RESPONSE, "HTTP 200 with an empty answer"
    if cut_short:
        return classify.TRUNCATED, f"the output was cut at max_tokens, {_tokens(usage)}"
    return None


def _no_object(choice: _Choice, keys: Sequence[str]) -> tuple[Verdict, str] | None:
    """What is wrong with a choice that should be a JSON object, if anything."""
    try:
        found = parse_json(choice.text)
    except ValueError:
        found = None
    if choice.tool_calls or (isinstance(found, dict) and found.keys() >= set(keys)):
        return None
    missing = ", ".join(key for key in keys if not isinstance(found, dict) or key not in found)
    with_keys = f" with {missing}" if missing else ""
    return classify.INVALID_OUTPUT, f"the output is not the JSON object{with_keys} that was asked for"


def _tokens(usage: Usage) -> str:
    return "an unknown number of tokens" if usage.output_tokens is None else f"{usage.output_tokens} tokens"


def _first_choice(choices: object) -> _Choice | None:
    """The first choice that has a message; more than one was never asked for."""
    for choice in choices if isinstance(choices, list) else ():
        message = choice.get("message") if isinstance(choice, Mapping) else None
        if isinstance(message, Mapping) and not choice.get("error"):
            return _Choice(
                text=text_of(message.get("content")) or text_of(message.get("refusal")),
                tool_calls=_tool_calls(message.get("tool_calls")),
                finish_reason=label(choice.get("finish_reason")),
            )
    return None


def text_of(content: object) -> str:
    """The text of a message's content: a string, or a list of parts of which the text ones count."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def _tool_calls(value: object) -> Sequence[Mapping[str, Any]] | None:
    calls = [call for call in value if isinstance(call, Mapping)] if isinstance(value, list) else []
    return calls if calls and storable(calls, at_most=_LARGEST_TOOL_CALLS) else None


def _raw_usage(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    raw = body.get("usage")
    return raw if isinstance(raw, Mapping) and storable(raw, at_most=_LARGEST_RAW_USAGE) else None


def _no_choice(body: Mapping[str, Any]) -> Outcome:
    """An error with status 200, or nothing at all."""
    said = said_by(_error_in(body))
    verdict = classify.verdict_on_error_in_200(said)
    detail = f"HTTP 200 with the error '{said.text}'" if said.text else "HTTP 200 without a choice"
    return _bad(detail, verdict=verdict, body=body)


def _error_in(body: Mapping[str, Any]) -> object:
    """The body itself, or the error that stands in one of its choices."""
    choices = body.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping) and choice.get("error"):
            return choice
    return body


def _not_json(content: bytes) -> Outcome:
    """Broken JSON may still show which answer it was, by which the provider's bill names it."""
    found = _ID.search(content, 0, 1000)
    body = {"id": found.group(1).decode("utf-8", errors="replace")} if found else {}
    return _bad(f"HTTP 200 with {describe(content)} instead of a completion", body=body)


def _not_utf8(content: bytes) -> Outcome:
    """The text is lost, but what it cost may still be read."""
    try:
        body = parse_json(content.decode("utf-8", errors="replace"))
    except ValueError:
        body = None
    return _bad("HTTP 200 with a body that is not UTF-8", body=body if isinstance(body, Mapping) else {})


def _bad(
    detail: str, *, verdict: Verdict = classify.BAD_RESPONSE, body: Mapping[str, Any] | None = None
) -> Outcome:
    body = body or {}
    return Outcome(
        status="error",
        disposition=verdict.disposition,
        error=verdict.error,
        message=detail,
        response_id=label(body.get("id")),
        usage=usage_from_raw(body.get("usage")),
        raw_usage=_raw_usage(body),
    )
