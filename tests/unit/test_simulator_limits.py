"""The sliding window: (time, tokens) of each request -> admitted, or seconds until it fits."""

import pytest

from paretoken.simulator.limits import Limits, Window
from paretoken.simulator.wire import Refused


def admit(window: Window, now: float, tokens: int) -> float:
    """0 where admitted, else the seconds named by the refusal."""
    try:
        window.admit(now=now, tokens=tokens)
    except Refused as refused:
        assert refused.error.status == 429
        assert refused.error.code == "rate_limit_exceeded"
        return int(refused.error.headers["retry-after-ms"]) / 1000
    return 0.0


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        pytest.param(
            Limits(requests=2),
            # 0 and 10 fill the window; at 30 the first leaves in 30 s, at 59.5 in 0.5 s, at 60 it has left.
            [(0, 1, 0), (10, 1, 0), (30, 1, 30), (59.5, 1, 0.5), (60, 1, 0), (61, 1, 9)],
            id="requests leave one by one, not all at a minute's end",
        ),
        pytest.param(
            Limits(tokens=100),
            # 60 + 40 = 100 fits; 10 more fit when the 60 have left (at 60), 70 more not before the 40 have.
            [(0, 60, 0), (20, 40, 0), (30, 10, 30), (30, 70, 50), (60, 10, 0), (60, 51, 20)],
            id="tokens",
        ),
        pytest.param(
            Limits(requests=5, tokens=100), [(0, 101, 60), (0, 100, 0), (1, 1, 59)], id="never fits"
        ),
        pytest.param(Limits(requests=0), [(0, 1, 60)], id="nothing allowed"),
        pytest.param(
            Limits(requests=1),
            # The refusals at 1, 2 and 3 do not count: the place is free 60 s after 0.
            [(0, 1, 0), (1, 1, 59), (2, 1, 58), (3, 1, 57), (60, 1, 0)],
            id="refused requests do not count",
        ),
    ],
)
def test_window(limits: Limits, steps: list[tuple[float, int, float]]) -> None:
    window = Window(limits)
    assert [admit(window, now, tokens) for now, tokens, _ in steps] == [wait for _, _, wait in steps]


def test_headers_tell_what_is_left_and_when_the_window_is_empty_again() -> None:
    window = Window(Limits(requests=3, tokens=1000))
    window.admit(now=0.0, tokens=400)
    assert window.admit(now=12.5, tokens=100) == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "1",  # 3 - 2
        "x-ratelimit-reset-requests": "1m0s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "500",  # 1000 - 400 - 100
        "x-ratelimit-reset-tokens": "1m0s",
    }


def test_a_refusal_names_its_wait_twice_rounded_up() -> None:
    window = Window(Limits(requests=1))
    window.admit(now=0.0, tokens=1)
    with pytest.raises(Refused) as refused:
        window.admit(now=0.75, tokens=1)
    headers = refused.value.error.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("60", "59250")
    assert headers["x-ratelimit-reset-requests"] == "59.25s"
