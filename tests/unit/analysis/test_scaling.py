"""Elo for tokens: steps, their intervals and what is said of them."""

import math

import numpy as np
import pytest

from analysis.options import Options
from analysis.scaling import Points, Step, order_depends_on_zero, recommended

NONE = float("nan")


def made(
    gain: float, ktokens: float, *, se: tuple[float, float] = (1.0, 0.0), correlation: float = 0.0
) -> Step:
    cross = correlation * se[0] * se[1]
    covariance = np.array([[se[0] ** 2, cross], [cross, se[1] ** 2]])
    return Step(gain_elo=gain, extra_ktokens=ktokens, covariance=covariance, n_tasks=100, degrees=1000)


@pytest.mark.parametrize(
    ("step", "assessment"),
    [
        (made(10, 1), "worth it"),  # (10 - 2·1) / 1 = 8 standard errors above the threshold
        (made(10, 20), "diminishing"),  # 10 - 2·20 = -30, but the gain itself is sure
        (made(-10, 1), "not worth it"),
        (made(0, 20), "not worth it"),
        (made(3, 1), "cannot tell yet"),  # (3 - 2) / 1 = 1 standard error
        (made(10, 0), "worth it"),  # more skill for no tokens
    ],
)
def test_assessment(step: Step, assessment: str) -> None:
    assert step.assessment(threshold=2, level=0.95) == assessment


def test_nothing_is_concluded_without_a_standard_error() -> None:
    for covariance in (None, np.zeros((2, 2))):
        step = Step(gain_elo=50, extra_ktokens=1, covariance=covariance, n_tasks=1, degrees=0)
        assert step.p_above(2) is None
        assert step.assessment(2, 0.95) == "cannot tell yet"
        assert step.more_tasks(2, 0.95) is None


def test_more_tasks() -> None:
    """One standard error above, one-sided t(1000) at 95 % is 1.6464: 100·1.6464² - 100 = 171.06."""
    assert made(3, 1).more_tasks(threshold=2, level=0.95) == 172


@pytest.mark.parametrize(
    ("step", "limits"),
    [
        # Tokens known exactly: gain ± 1.96234 · 1, divided by 2.
        (made(10, 2), ((10 - 1.96234) / 2, (10 + 1.96234) / 2)),
        # Extra tokens 1 ± 1 may be 0.
        (made(10, 1, se=(1, 1)), (-math.inf, math.inf)),
        (made(10, 0), None),
        (made(10, -1), None),
    ],
)
def test_limits(step: Step, limits: tuple[float, float] | None) -> None:
    assert step.limits(0.95) == (limits if limits is None else pytest.approx(limits, rel=1e-5))


def test_fieller_covers_the_true_ratio() -> None:
    """Gain 6 ± 2 for 2 ± 0.5 thousand tokens, correlated: the true ratio 3 is inside in 93.8-96.2 % of draws."""
    rng = np.random.default_rng(0)
    step = made(6, 2, se=(2, 0.5), correlation=0.3)
    draws = rng.multivariate_normal([6, 2], step.covariance, size=4000)
    inside = 0
    for gain, tokens in draws:
        limits = made(gain, tokens, se=(2, 0.5), correlation=0.3).limits(0.95)
        inside += limits is not None and limits[0] <= 3 <= limits[1]
    assert 0.938 <= inside / 4000 <= 0.962


def placed(tokens: list[float], elo: list[float]) -> Points:
    return Points(
        strategies=tuple("abcdef"[: len(elo)]),
        tokens=np.array(tokens),
        elo=np.array(elo),
        tokens_influence=np.zeros((2, len(elo))),
        elo_influence=None,
        group=np.zeros(len(elo), dtype=np.int64),
        n_tasks=2,
        degrees=1,
    )


@pytest.mark.parametrize(
    ("tokens", "elo", "threshold", "best"),
    [
        ([1000, 2000, 3000], [900, 1000, 1001], 2, 1),  # +100, then +1 for 1K
        ([1000, 2000, 3000], [900, 1000, 1001], 0.5, 2),
        ([1000, 2000, 3000], [1000, 1001, 1100], 2, 2),  # b does not pass, c does, from a: 100 for 2K
        ([1000, 2000], [1000, 900], 0, 0),
        ([3000, 1000], [1000, 900], 2, 0),
        ([NONE, 1000], [1000, 900], 2, 1),
        ([NONE, NONE], [1000, 900], 2, None),
    ],
)
def test_recommended(tokens: list[float], elo: list[float], threshold: float, best: int | None) -> None:
    assert recommended(placed(tokens, elo), Options(threshold=threshold)) == best


@pytest.mark.parametrize(
    ("tokens", "elo", "depends"),
    [
        # 990/1000 < 1010/1010 as it is; with b at 1000, 980/1000 < 1000/1010 and with a, 1000/1000 < 1020/1010.
        ([1000, 1010], [990, 1010], False),
        # 1000/1000 = 1.000 > 1015/1016 = 0.999; with b at 1000, 985/1000 = 0.985 > 1000/1016 = 0.984.
        ([1000, 1016], [1000, 1015], False),
        # 900/1000 < 1000/1105 = 0.905; with a at 1000, 1.0 > 1100/1105.
        ([1000, 1105], [900, 1000], True),
    ],
)
def test_order_by_elo_per_1k_can_depend_on_the_zero(
    tokens: list[float], elo: list[float], depends: bool
) -> None:
    assert order_depends_on_zero(placed(tokens, elo)) is depends
