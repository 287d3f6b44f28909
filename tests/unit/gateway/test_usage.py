"""Shapes of `usage` as gateways report them, and what each means."""

from typing import Any

import pytest

from analysis.usage import UNKNOWN_USAGE, Usage, usage_from_raw

SHAPES: dict[str, tuple[Any, Usage]] = {
    "OpenAI": (
        {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 140},
        Usage(input_tokens=100, output_tokens=40, total_tokens=100 + 40),
    ),
    "OpenAI, cached and reasoning are parts": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 40,
            "total_tokens": 140,
            "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
        Usage(
            input_tokens=100,
            output_tokens=40,
            total_tokens=140,
            cached_input_tokens=64,
            reasoning_tokens=30,
        ),
    ),
    "OpenAI, details null": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 1,
            "total_tokens": 10,
            "prompt_tokens_details": None,
            "completion_tokens_details": {"reasoning_tokens": None},
        },
        Usage(input_tokens=9, output_tokens=1, total_tokens=10),
    ),
    "reasoning apart: 100 + 40 + 300 = 440": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 40,
            "total_tokens": 440,
            "completion_tokens_details": {"reasoning_tokens": 300},
        },
        Usage(input_tokens=100, output_tokens=40 + 300, total_tokens=440, reasoning_tokens=300),
    ),
    "no reasoning spent: nothing to add": (
        {
            "prompt_tokens": 5,
            "completion_tokens": 6,
            "total_tokens": 11,
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        Usage(input_tokens=5, output_tokens=6, total_tokens=11, reasoning_tokens=0),
    ),
    "OpenAI responses": (
        {
            "input_tokens": 50,
            "output_tokens": 20,
            "total_tokens": 70,
            "input_tokens_details": {"cached_tokens": 32},
            "output_tokens_details": {"reasoning_tokens": 8},
        },
        Usage(input_tokens=50, output_tokens=20, total_tokens=70, cached_input_tokens=32, reasoning_tokens=8),
    ),
    "Anthropic": (
        {
            "input_tokens": 12,
            "cache_creation_input_tokens": 1000,
            "cache_read_input_tokens": 5000,
            "output_tokens": 30,
        },
        Usage(
            input_tokens=12 + 1000 + 5000,
            output_tokens=30,
            total_tokens=6012 + 30,
            cached_input_tokens=5000,
        ),
    ),
    "Anthropic, cache fields null": (
        {
            "input_tokens": 12,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": None,
            "output_tokens": 3,
        },
        Usage(input_tokens=12, output_tokens=3, total_tokens=15),
    ),
    "Anthropic, a cache field is nonsense": (
        {"input_tokens": 12, "cache_read_input_tokens": "many", "output_tokens": 3},
        Usage(output_tokens=3),
    ),
    "OpenAI names win over Anthropic's": (
        {
            "prompt_tokens": 6012,
            "completion_tokens": 30,
            "total_tokens": 6042,
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_read_input_tokens": 5000,
        },
        Usage(input_tokens=6012, output_tokens=30, total_tokens=6042, cached_input_tokens=5000),
    ),
    "DeepSeek: 96 + 4 = 100": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "total_tokens": 107,
            "prompt_cache_hit_tokens": 96,
            "prompt_cache_miss_tokens": 4,
        },
        Usage(input_tokens=100, output_tokens=7, total_tokens=107, cached_input_tokens=96),
    ),
    "DeepSeek without prompt_tokens": (
        {"completion_tokens": 7, "prompt_cache_hit_tokens": 96, "prompt_cache_miss_tokens": 4},
        Usage(input_tokens=96 + 4, output_tokens=7, total_tokens=107, cached_input_tokens=96),
    ),
    "Moonshot: cached_tokens at the top": (
        {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25, "cached_tokens": 16},
        Usage(input_tokens=20, output_tokens=5, total_tokens=25, cached_input_tokens=16),
    ),
    "total missing": (
        {"prompt_tokens": 3, "completion_tokens": 4},
        Usage(input_tokens=3, output_tokens=4, total_tokens=7),
    ),
    "total that disagrees: ours is input + output": (
        {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 999},
        Usage(input_tokens=3, output_tokens=4, total_tokens=7),
    ),
    "total alone": ({"total_tokens": 50}, Usage(total_tokens=50)),
    "total with one part": (
        {"prompt_tokens": 30, "total_tokens": 50},
        Usage(input_tokens=30, total_tokens=50),
    ),
    "total smaller than its part": ({"prompt_tokens": 30, "total_tokens": 5}, Usage(input_tokens=30)),
    "true zeros stay zeros": (
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        Usage(input_tokens=0, output_tokens=0, total_tokens=0),
    ),
    "a part larger than its whole": (
        {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 11}},
        Usage(input_tokens=10, output_tokens=5, total_tokens=15),
    ),
    "missing": (None, UNKNOWN_USAGE),
    "empty": ({}, UNKNOWN_USAGE),
    "a string": ("lots", UNKNOWN_USAGE),
    "a list": ([1, 2], UNKNOWN_USAGE),
}


@pytest.mark.parametrize(("raw", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_shape(raw: Any, expected: Usage) -> None:
    assert usage_from_raw(raw) == expected


@pytest.mark.parametrize("nonsense", [-1, True, 12.0, float("nan"), "12", {"n": 12}, [12], 2**31, None])
def test_nonsense_is_unknown_and_spoils_nothing_else(nonsense: Any) -> None:
    raw = {"prompt_tokens": nonsense, "completion_tokens": 4, "total_tokens": nonsense}
    assert usage_from_raw(raw) == Usage(output_tokens=4)
