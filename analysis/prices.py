"""Prices per model and what a call costs. There is no built-in price: an unpriced call has unknown cost."""

from dataclasses import dataclass

from analysis.usage import Usage


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD per 1,000,000 tokens of one model."""

    input_usd_per_1m: float
    output_usd_per_1m: float
    cached_input_usd_per_1m: float | None = None
    """Price of cached input tokens; without it they cost what other input tokens cost."""


def cost_usd(usage: Usage, price: Price | None) -> float | None:
    """USD of one call, or `None` where the price or either token count is unknown."""
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = usage.cached_input_tokens or 0
    cached_price = price.cached_input_usd_per_1m
    if cached_price is None:
        cached_price = price.input_usd_per_1m
    micro_usd = (
        (usage.input_tokens - cached) * price.input_usd_per_1m
        + cached * cached_price
        + usage.output_tokens * price.output_usd_per_1m
    )
    return micro_usd / 1e6
