"""What a call costs, with the arithmetic shown."""

import pytest

from analysis.prices import Price, cost_usd
from analysis.usage import Usage

GPT4 = Price(input_usd_per_1m=10.0, output_usd_per_1m=30.0)
CACHED = Price(input_usd_per_1m=10.0, output_usd_per_1m=30.0, cached_input_usd_per_1m=1.0)


@pytest.mark.parametrize(
    ("usage", "price", "cost"),
    [
        (Usage(input_tokens=185, output_tokens=194), GPT4, (185 * 10 + 194 * 30) / 1e6),
        (Usage(input_tokens=0, output_tokens=0), GPT4, 0.0),
        (Usage(input_tokens=100, output_tokens=0, cached_input_tokens=60), GPT4, 100 * 10 / 1e6),
        (Usage(input_tokens=100, output_tokens=0, cached_input_tokens=60), CACHED, (40 * 10 + 60 * 1) / 1e6),
        (Usage(input_tokens=100, output_tokens=None), GPT4, None),
        (Usage(input_tokens=None, output_tokens=5), GPT4, None),
        (Usage(input_tokens=100, output_tokens=5), None, None),
    ],
)
def test_cost(usage: Usage, price: Price | None, cost: float | None) -> None:
    assert cost_usd(usage, price) == (cost if cost is None else pytest.approx(cost, abs=1e-15))
