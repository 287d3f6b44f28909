"""How long a gateway asks to wait, in all the ways that it says so."""

from datetime import UTC, datetime

import pytest

from workers.gateway.retry_after import retry_after_s

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
YEAR_S = 366 * 86400

HEADERS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"retry-after": "90"}, 90),
    ({"retry-after": "1.5"}, 1.5),
    ({"retry-after": " 20 "}, 20),
    ({"retry-after": "0"}, 0),
    ({"retry-after": "198300"}, 198300),
    ({"retry-after": "Sun, 01 Mar 2026 12:01:05 GMT"}, 65),
    ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0),
    ({"retry-after": "2026-03-01T12:00:30Z"}, 30),
    ({"retry-after": "5s"}, 5),
    # A date is counted from the answer's own clock: 12:01:05 - 12:00:55.
    ({"retry-after": "Sun, 01 Mar 2026 12:01:05 GMT", "date": "Sun, 01 Mar 2026 12:00:55 GMT"}, 10),
    ({"retry-after-ms": "1500"}, 1.5),
    ({"retry-after-ms": "1500", "retry-after": "90"}, 1.5),
    ({"retry-after-ms": "soon", "retry-after": "90"}, 90),
    ({"retry-after": "90", "x-ratelimit-reset-requests": "6m0s"}, 90),
    ({"x-ratelimit-reset-requests": "6m0s"}, 360),
    ({"x-ratelimit-reset-requests": "12ms"}, 0.012),
    ({"x-ratelimit-reset-requests": "1h2m3.5s"}, 3600 + 120 + 3.5),
    ({"x-ratelimit-reset-tokens": "1d"}, 86400),
    ({"x-ratelimit-reset": "7"}, 7),
    ({"x-ratelimit-reset": str(int(NOW.timestamp()) + 40)}, 40),
    ({"x-ratelimit-reset": str(int(NOW.timestamp() * 1000) + 2500)}, 2.5),
    ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "9s"}, 9),
    (
        {
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-tokens": "9s",
            "x-ratelimit-remaining-tokens": "5000",
        },
        1,
    ),
    ({"retry-after": "-5"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": ""}, None),
    ({"retry-after": "1e300"}, YEAR_S),
    ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, YEAR_S),
    ({"x-ratelimit-reset-tokens": "9" * 500 + "s"}, None),
    ({"x-ratelimit-reset-tokens": "6m0"}, None),
]


@pytest.mark.parametrize(("headers", "expected_s"), HEADERS)
def test_wait_of_a_rate_limit(headers: dict[str, str], expected_s: float | None) -> None:
    waited_s = retry_after_s(headers, rate_limited=True, now=NOW)
    assert waited_s == (None if expected_s is None else pytest.approx(expected_s))


def test_reset_headers_ask_for_nothing_where_no_limit_was_hit() -> None:
    assert retry_after_s({"x-ratelimit-reset-requests": "6m0s"}, rate_limited=False, now=NOW) is None
    assert retry_after_s({"retry-after": "3"}, rate_limited=False, now=NOW) == 3
