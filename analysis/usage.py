"""What one call used, read from the many shapes that gateways report it in.

| style | input | output | cached | reasoning |
|---|---|---|---|---|
| OpenAI chat | `prompt_tokens` | `completion_tokens` | part of the prompt | part of the completion |
| OpenAI responses | `input_tokens` | `output_tokens` | part of the input | part of the output |
| reasoning apart | `prompt_tokens` | completion + reasoning | part of the prompt | added to the output |
| Anthropic | `input_tokens` + cache creation + cache read | `output_tokens` | cache read, added | - |
| DeepSeek | `prompt_tokens`, or hits + misses | `completion_tokens` | cache hits, part of the prompt | part |

Reasoning is apart where prompt + completion + reasoning = the reported total. Where a gateway reports both
the `prompt_*` and the `input_*` names, the first are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one call. `None` means that the gateway did not say; it is never counted as 0."""

    input_tokens: int | None = None
    """All prompt tokens, cached ones included."""
    output_tokens: int | None = None
    """All completion tokens, reasoning included."""
    total_tokens: int | None = None
    """Input plus output. A reported total counts only where one of the two is unknown; raw usage keeps it."""
    cached_input_tokens: int | None = None
    """The part of `input_tokens` that came from the gateway's cache."""
    reasoning_tokens: int | None = None
    """The part of `output_tokens` that was spent on hidden reasoning."""


UNKNOWN_USAGE = Usage()

_MOST_TOKENS = 2**31 - 1
"""More than this in one call is a broken counter, and no integer column holds it."""

_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),
    ("cache_read_input_tokens",),
    ("cached_tokens",),
)
_REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),
)


def usage_from_raw(raw: Mapping[str, Any] | None) -> Usage:
    """Read any style of the table above; what is missing, null, negative or no whole number stays unknown."""
    if not isinstance(raw, Mapping):
        return UNKNOWN_USAGE
    input_tokens = _input(raw)
    output_tokens, reasoning = _output(raw, input_tokens)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=_total(input_tokens, output_tokens, _count(raw.get("total_tokens"))),
        cached_input_tokens=_part_of(input_tokens, _first(raw, _CACHED)),
        reasoning_tokens=_part_of(output_tokens, reasoning),
    )


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return value
    return None


def _first(raw: Mapping[str, Any], paths: tuple[tuple[str, ...], ...]) -> int | None:
    """The first of several places that holds a count."""
    for path in paths:
        value: object = raw
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if (count := _count(value)) is not None:
            return count
    return None


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _input(raw: Mapping[str, Any]) -> int | None:
    prompt = _count(raw.get("prompt_tokens"))
    if prompt is not None:
        return prompt
    if raw.get("input_tokens") is not None:
        cache = (raw.get("cache_creation_input_tokens"), raw.get("cache_read_input_tokens"))
        reported = (_count(tokens) for tokens in cache if tokens is not None)
        return _sum(_count(raw["input_tokens"]), *reported)
    return _sum(_count(raw.get("prompt_cache_hit_tokens")), _count(raw.get("prompt_cache_miss_tokens")))


def _output(raw: Mapping[str, Any], input_tokens: int | None) -> tuple[int | None, int | None]:
    """Output tokens and the reasoning among them."""
    completion = _count(raw.get("completion_tokens"))
    if completion is None:
        completion = _count(raw.get("output_tokens"))
    reasoning = _first(raw, _REASONING)
    with_reasoning = _sum(completion, reasoning)
    total = _count(raw.get("total_tokens"))
    if reasoning and total is not None and _sum(input_tokens, with_reasoning) == total:
        return with_reasoning, reasoning
    return completion, reasoning


def _total(input_tokens: int | None, output_tokens: int | None, reported: int | None) -> int | None:
    both = _sum(input_tokens, output_tokens)
    if both is not None:
        return both
    known_part = input_tokens or output_tokens or 0
    return reported if reported is not None and reported >= known_part else None


def _part_of(whole: int | None, part: int | None) -> int | None:
    """A part larger than its whole is nonsense; of an unknown whole the part is still worth keeping."""
    if part is not None and whole is not None and part > whole:
        return None
    return part
