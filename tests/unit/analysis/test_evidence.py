"""Other people's files, with their own names for everything."""

import gzip
from pathlib import Path

import polars as pl
import pytest

from analysis.errors import AnalysisError, FrameError, OptionError
from analysis.evidence import Evidence, evidence
from analysis.frames import calls_frame
from analysis.sources import (
    arena_comparisons,
    column_map,
    number_repeats,
    ranking_comparisons,
    read_table,
    rename,
    with_prices,
)

TABLE = pl.DataFrame({"task_id": ["t", "u"], "strategy": ["=a", '模型, "b"'], "score": [1.5, None]})


@pytest.mark.parametrize(
    "name", ["x.csv", "x.jsonl", "x.ndjson", "x.parquet", "x.csv.gz", "x.jsonl.gz", "X.CSV"]
)
def test_every_kind_of_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if "parquet" in name:
        TABLE.write_parquet(path)
    else:
        text = TABLE.write_csv() if ".csv" in name.lower() else TABLE.write_ndjson()
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert read_table(path).equals(TABLE)


def test_our_own_csv_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("task_id,strategy\nt,'=a\nu,b\n", encoding="utf-8")
    assert read_table(path)["strategy"].to_list() == ["=a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.xlsx", b"", "not a kind of file"),
        ("x.csv.gz", b"no gzip", "cannot be read"),
        ("x.jsonl", b'{"a": 1}\n{"a": ', "cannot be read"),
        ("x.parquet", b"PAR0", "cannot be read"),
        ("x.csv", b"", "cannot be read"),
    ],
)
def test_unreadable(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FrameError, match=f"{name}: .*{message}"):
        read_table(tmp_path / name)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FrameError, match="no such file"):
        read_table(tmp_path / "x.csv")


def test_column_map_and_rename() -> None:
    columns = column_map("strategy=model+prompt, success=solved,task_id=q")
    frame = pl.DataFrame({"q": ["t"], "model": ["m"], "prompt": [3], "solved": [1], "left": [0]})
    renamed = rename(frame, columns)
    assert renamed.select("task_id", "strategy", "confirmed_success").rows() == [("t", "m | 3", 1)]
    for wrong in ("strategy", "=x", "x="):
        with pytest.raises(OptionError, match="not of the form"):
            column_map(wrong)


def test_repeat_labels_are_numbered_alike() -> None:
    first, second = number_repeats(
        [pl.DataFrame({"repeat": ["run10", "run2"]}), pl.DataFrame({"repeat": ["run2", "run9"]})]
    )
    assert (first["repeat"].to_list(), second["repeat"].to_list()) == ([3, 1], [1, 2])


def test_arena_format() -> None:
    frame = pl.DataFrame(
        {"model_a": ["x"] * 4, "model_b": ["y"] * 4, "winner": ["model_a", "RIGHT", "tie (bothbad)", "tie"]}
    )
    found = arena_comparisons(frame).select("winner", "loser", "tie").rows()
    assert found == [("x", "y", False), ("y", "x", False), ("x", "y", True), ("x", "y", True)]
    with pytest.raises(FrameError, match="winner is 'x'"):
        arena_comparisons(frame.with_columns(winner=pl.lit("x")))


def test_a_ranking_is_all_its_pairs() -> None:
    ranked = pl.DataFrame({"task_id": "t", "strategy": ["a", "b", "c"], "rank": [2, 1, 2]})
    assert set(ranking_comparisons(ranked).select("winner", "loser", "tie", "items").rows()) == {
        ("b", "a", False, 3.0),
        ("a", "c", True, 3.0),
        ("b", "c", False, 3.0),
    }
    with pytest.raises(FrameError, match="'a' stands twice in a ranking of 't'"):
        ranking_comparisons(pl.concat([ranked, ranked]))
    with pytest.raises(FrameError, match="no column rank"):
        ranking_comparisons(ranked.drop("rank"))


def test_prices() -> None:
    calls = calls_frame(
        pl.DataFrame(
            {
                "task_id": ["t"] * 3,
                "strategy": ["a"] * 3,
                "model": ["m", "m", "unpriced"],
                "input_tokens": [100, None, 100],
                "output_tokens": [10, 10, 10],
                "cached_input_tokens": [60, None, None],
                "cost_usd": [None, None, 7.0],
            }
        )
    )
    prices = pl.DataFrame(
        {
            "model": ["m"],
            "input_usd_per_1m_tokens": [10],
            "output_usd_per_1m_tokens": [30],
            "cached_input_usd_per_1m": [1],
        }
    )
    priced = with_prices(calls, prices)["cost_usd"].to_list()
    assert priced == [pytest.approx((40 * 10 + 60 * 1 + 10 * 30) / 1e6), None, 7.0]
    with pytest.raises(FrameError, match="a model stands there twice"):
        with_prices(calls, pl.concat([prices, prices]))
    with pytest.raises(FrameError, match="no column output_usd_per_1m"):
        with_prices(calls, prices.drop("output_usd_per_1m_tokens"))


CALLS = pl.DataFrame(
    {
        "task_id": ["t", "t"],
        "strategy": ["a", "b"],
        "model": ["m", "m"],
        "total_tokens": [5, 7],
        "repeat": ["r1", "r1"],
    }
)


def given(**frames: object) -> Evidence:
    return evidence(**frames)


def test_a_ledger_alone_has_trials_without_verdicts() -> None:
    found = given(calls=CALLS)
    assert found.outcomes.select("task_id", "strategy", "repeat", "status", "confirmed_success").rows() == [
        ("t", "a", 1, "ok", None),
        ("t", "b", 1, "ok", None),
    ]
    assert found.comparisons is None


def test_families_and_only() -> None:
    families = pl.DataFrame({"strategy": ["b", "a", "z"], "family": ["f", "f", "f"], "tier": [1, 2, 3]})
    found = given(calls=CALLS, families=families)
    assert found.strategies.rows() == [("b", "f", 1), ("a", "f", 2)]
    kept = given(calls=CALLS, only=["a"])
    assert kept.outcomes["strategy"].to_list() == ["a"]
    verdicts = pl.DataFrame({"task_id": "t", "winner": ["a", "a", "c"], "loser": ["b", "c", "b"]})
    assert given(comparisons=verdicts, only=["a", "b"]).comparisons.select("winner", "loser").rows() == [
        ("a", "b")
    ]


def test_rankings_and_comparisons_are_ranked_together() -> None:
    ranked = pl.DataFrame({"task_id": "t", "strategy": ["a", "b", "c"], "rank": [1, 2, 3]})
    verdicts = pl.DataFrame({"task_id": [1], "winner": ["c"], "loser": ["a"]})
    found = given(rankings=ranked, comparisons=verdicts)
    assert found.comparisons.height == 4
    assert found.strategies["strategy"].to_list() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ({}, "Nothing to analyse"),
        (
            {"calls": CALLS.with_columns(strategy=pl.lit("a"), model=pl.Series(["m", "n"]))},
            "mixes 2 values of model",
        ),
        (
            {"calls": CALLS.with_columns(strategy=pl.lit("a"), prompt_hash=pl.Series(["1", "2"]))},
            "mixes 2 values of prompt_hash .*--allow-mixed",
        ),
        ({"calls": CALLS, "columns": {"task_id": ["absent"]}}, "no file has absent"),
        ({"calls": CALLS, "families": pl.DataFrame({"name": ["a"]})}, "families: no column"),
    ],
)
def test_refusals(frames: dict[str, object], message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        given(**frames)


def test_mixed_calls_can_be_allowed() -> None:
    mixed = CALLS.with_columns(
        strategy=pl.lit("a"), model=pl.Series(["m", "n"]), repeat=pl.Series(["1", "2"])
    )
    assert given(calls=mixed, allow_mixed=True).outcomes.height == 2


def test_a_judges_model_does_not_make_a_strategy_mixed() -> None:
    judged = CALLS.with_columns(
        strategy=pl.lit("a"), model=pl.Series(["m", "n"]), kind=pl.Series(["generation", "judge"])
    )
    assert given(calls=judged).outcomes.height == 1
