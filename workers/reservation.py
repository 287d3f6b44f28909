"""Upper bounds of what a call can use, reserved before it is sent, and the smaller estimate for rate limits."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.prices import Price

# What a chat template adds around each message, generously.
_TEMPLATE_TOKENS = 16
_BYTES_PER_TOKEN = 4


def prompt_bytes(messages: Sequence[Mapping[str, Any]]) -> int:
    """Upper bound of a prompt's tokens: no token is shorter than a byte of its UTF-8 text."""
    return sum(
        len(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")) + _TEMPLATE_TOKENS
        for message in messages
    )


def bound_cost_usd(*, prompt_tokens: int, max_tokens: int, price: Price | None) -> float | None:
    """USD that a call can cost at the most; None without a price."""
    if price is None:
        return None
    return (prompt_tokens * price.input_usd_per_1m + max_tokens * price.output_usd_per_1m) / 1e6


def estimated_tokens(messages: Sequence[Mapping[str, Any]], max_tokens: int) -> int:
    """What gateways count against a limit before they know better: the prompt's likely tokens and `max_tokens`."""
    return prompt_bytes(messages) // _BYTES_PER_TOKEN + max_tokens
