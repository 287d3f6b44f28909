"""What one call used, read from the many shapes that gateways report it in."""

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
    """Input plus output."""
    cached_input_tokens: int | None = None
    """The part of `input_tokens` that came from the gateway's cache."""
    reasoning_tokens: int | None = None
    """The part of `output_tokens` that was spent on hidden reasoning."""


UNKNOWN_USAGE = Usage()


def usage_from_raw(raw: Mapping[str, Any] | None) -> Usage:
    """Read OpenAI, Anthropic and DeepSeek styles of `usage`; what is missing, null or no number stays unknown."""
    raise NotImplementedError
