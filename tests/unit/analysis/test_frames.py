"""What the analysis takes, and the one line it answers with to anything else."""

import polars as pl
import pytest

from analysis.errors import FrameError
from analysis.frames import CALLS, OUTCOMES, calls_frame, outcomes_frame, strategies_frame

from .conftest import trials

ONE = trials([("t", "a", 1, True)])


def test_absent_columns_get_their_default() -> None:
    frame = outcomes_frame(pl.DataFrame({"task_id": ["t"], "strategy": ["a"], "foreign": [1]}))
    assert frame.columns == list(OUTCOMES)
    row = frame.row(0, named=True)
    assert (row["repeat"], row["task_weight"], row["status"], row["confirmed_success"]) == (
        1,
        1.0,
        "ok",
        None,
    )


def test_calls_keep_the_names_of_the_ledger_and_fill_what_follows() -> None:
    rows = {
        "task_id": ["t"] * 3,
        "strategy": ["a"] * 3,
        "status": ["ok", "error", "ok"],
        "input_tokens": [3, 2, None],
        "output_tokens": [4, 1, 5],
    }
    frame = calls_frame(pl.DataFrame(rows))
    assert frame.columns == list(CALLS)
    assert frame["used"].to_list() == [True, False, True]
    assert frame["total_tokens"].to_list() == [7, 3, None]


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [(["true", "False", "1", "", None], [True, False, True, None, None]), (["no", "YES"], [False, True])],
)
def test_verdicts_as_words(text: list[str], verdicts: list[bool | None]) -> None:
    names = [str(number) for number in range(len(text))]
    frame = pl.DataFrame({"task_id": names, "strategy": names, "confirmed_success": text})
    assert outcomes_frame(frame)["confirmed_success"].to_list() == verdicts


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"task": ["t"]}), r"outcomes: no column task_id, strategy \(there are: task\)"),
        (pl.DataFrame({"task_id": ["t", None], "strategy": ["a", "a"]}), "task_id is empty in row 2"),
        (pl.concat([ONE, ONE]), "2 rows share a key, the first is task_id 't', strategy 'a', repeat 1"),
        (ONE.with_columns(confirmed_success=pl.lit("maybe")), "holds 'maybe'; allowed are true and false"),
        (ONE.with_columns(task_weight=0.0), "task_weight must be a number above 0"),
        (ONE.with_columns(score=pl.lit("high")), "score holds something that is no Float64"),
        (
            trials([("t", "a", 1, True), ("t", "b", 1, True)]).with_columns(
                task_weight=pl.Series([1.0, 2.0])
            ),
            "'t' has more than one task_weight",
        ),
    ],
)
def test_wrong_outcomes(frame: pl.DataFrame, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        outcomes_frame(frame)


def test_negative_tokens_are_refused() -> None:
    with pytest.raises(FrameError, match="total_tokens is negative"):
        calls_frame(pl.DataFrame({"task_id": ["t"], "strategy": ["a"], "total_tokens": [-1]}))


def test_strategies_by_default_and_in_the_order_of_the_file() -> None:
    outcomes = outcomes_frame(trials([("t", "b", 1, True), ("t", "a", 1, True)]))
    assert strategies_frame(None, outcomes)["strategy"].to_list() == ["a", "b"]
    listed = pl.DataFrame({"strategy": ["b", "x", "a"], "family": ["f", "f", "f"]})
    frame = strategies_frame(listed, outcomes)
    assert frame.rows() == [("b", "f", 1, 0), ("x", "f", 2, 1), ("a", "f", 3, 2)]
    with pytest.raises(FrameError, match="'a' has outcomes but is not listed"):
        strategies_frame(pl.DataFrame({"strategy": ["b"]}), outcomes)
