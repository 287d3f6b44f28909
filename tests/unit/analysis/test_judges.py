"""How judges are measured, with the arithmetic beside."""

from typing import Any

import polars as pl
import pytest

from analysis.judges import QUALITY, READINGS, VERDICTS, judge_quality

A, B, TIE = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]


def readings(
    rows: list[tuple[int, list[int], list[float] | None]], problem: str = "unparsable"
) -> pl.DataFrame:
    """(judging, shown, scores) of one judge."""
    return pl.DataFrame(
        [
            ("j", judging, shown, scores, problem if scores is None else None)
            for judging, shown, scores in rows
        ],
        schema=dict(READINGS),
        orient="row",
    )


def verdicts(ties: list[bool]) -> pl.DataFrame:
    return pl.DataFrame(
        [("j", "t", "a", "b", tie, 1.0, 2.0) for tie in ties], schema=dict(VERDICTS), orient="row"
    )


def quality(
    rows: list[tuple[int, list[int], list[float] | None]], ties: list[bool] | None = None
) -> dict[str, Any]:
    [row] = judge_quality(readings(rows), verdicts(ties or [])).to_dicts()
    return row


@pytest.mark.parametrize(
    ("rows", "position_bias", "agreement"),
    [
        # Both orders of a pair: the same answer both times.
        ([(1, [7, 8], A), (1, [8, 7], B)], 0.0, 1.0),
        # Always the first one: of two decided pairs both; the two readings contradict each other.
        ([(1, [7, 8], A), (1, [8, 7], A)], 1.0, 0.0),
        ([(1, [7, 8], B), (1, [8, 7], B)], -1.0, 0.0),
        # Three for the first place, one for the second: (3 - 1) / 4. One judging of two agrees.
        ([(1, [7, 8], A), (1, [8, 7], A), (2, [7, 9], A), (2, [9, 7], B)], 0.5, 0.5),
        # A tie has no place, and agrees with a tie alone.
        ([(1, [7, 8], TIE), (1, [8, 7], TIE)], None, 1.0),
        ([(1, [7, 8], TIE), (1, [8, 7], A)], 1.0, 0.0),
        # One reading has nothing to agree with.
        ([(1, [7, 8], A), (1, [8, 7], None)], 1.0, None),
        ([(1, [7, 8], None), (1, [8, 7], None)], None, None),
        # Rankings 1 > 2 > 3 shown as 1, 2, 3 (all three pairs for the earlier place) and 3 > 2 > 1 shown as 3, 2, 1
        # (likewise): no pair agrees.
        ([(1, [1, 2, 3], [3.0, 2.0, 1.0]), (1, [3, 2, 1], [3.0, 2.0, 1.0])], 1.0, 0.0),
        # 1 > 2 > 3 both times, shown in both orders: 3 pairs for the earlier and 3 for the later place.
        ([(1, [1, 2, 3], [3.0, 2.0, 1.0]), (1, [3, 2, 1], [1.0, 2.0, 3.0])], 0.0, 1.0),
        # Three readings of a pair, two of which agree: 1 of 3 pairs of readings.
        ([(1, [1, 2], A), (1, [2, 1], B), (1, [1, 2], B)], 1 / 3 - 2 / 3, 1 / 3),
        # A score by itself compares nothing.
        ([(1, [1], [7.0]), (1, [2], [9.0])], None, None),
    ],
)
def test_position_bias_and_agreement(
    rows: list[tuple[int, list[int], list[float] | None]],
    position_bias: float | None,
    agreement: float | None,
) -> None:
    found = quality(rows)
    assert found["position_bias"] == pytest.approx(position_bias)
    assert found["agreement"] == pytest.approx(agreement)


def test_counts() -> None:
    found = quality([(1, [7, 8], A), (1, [8, 7], None), (2, [7, 9], A), (2, [9, 7], A)], [True])
    assert {name: found[name] for name in ("judgings", "calls", "verdicts", "ties", "unparsable", "failed")} == {
        "judgings": 2, "calls": 4, "verdicts": 1, "ties": 1, "unparsable": 1, "failed": 0,
    }  # fmt: skip
    [failed] = judge_quality(readings([(1, [1, 2], None)], "timeout"), verdicts([])).to_dicts()
    assert (failed["unparsable"], failed["failed"], failed["verdicts"]) == (0, 1, 0)


def test_without_a_reading_there_is_no_row() -> None:
    assert judge_quality(readings([]), verdicts([])).schema == pl.Schema(QUALITY)
