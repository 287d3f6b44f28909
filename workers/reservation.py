"""Upper bounds of what a call can use, reserved before it is sent, and the smaller estimate for rate limits."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.prices import Price

# What a chat template adds around each message, generously.
_TEMPLATE_TOKENS = 16
_BYTES_PER_TOKEN = 4


def prompt_bytes(messages: Sequence[Mapping[str, Any]], extra: Mapping[str, Any] | None = None) -> int:
    """Upper bound of a prompt's tokens: no token is shorter than a byte of its UTF-8 text.

    `extra` is what a request holds besides: tools, which are shown to the model too.
    """
    return sum(
        len(json.dumps(part, ensure_ascii=False).encode("utf-8", "surrogatepass")) + _TEMPLATE_TOKENS
        for part in ([*messages, extra] if extra else messages)
    )


def bound_cost_usd(*, prompt_tokens: int, max_tokens: int, price: Price | None) -> float | None:
    """USD that a call can cost at the most; None without a price."""
    if price is None:
        return None
    return (prompt_tokens * price.input_usd_per_1m + max_tokens * price.output_usd_per_1m) / 1e6


def estimated_tokens(
    messages: Sequence[Mapping[str, Any]], max_tokens: int, extra: Mapping[str, Any] | None = None
) -> int:
    """What gateways count against a limit before they know better: the prompt's likely tokens and `max_tokens`."""
    return prompt_bytes(messages, extra) // _BYTES_PER_TOKEN + max_tokens
