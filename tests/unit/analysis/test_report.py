"""The files of a report and what they say, also for the least that can be analysed."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analysis.errors import FrameError
from analysis.options import Options
from analysis.report import ReportSummary, Wanted, write_report
from analysis.weighting import Weighting

from .conftest import HUMANEVAL_FIVE, trials

TABLES = Wanted(page=False)

COLUMNS = {
    "comparisons.csv": "task_id,winner,loser,tie,weight",
    "elo_table.csv": "strategy,elo,elo_se,elo_low,elo_high,rank,rank_low,rank_high,n_tasks,win_rate,tie_share",
    "strategy_tokens.csv": "strategy,trials,ok_trials,ok_calls,avg_input_tokens,avg_output_tokens,avg_first_tokens,"
    "avg_total_tokens,median_total_tokens,avg_retry_tokens,avg_cost_usd,unknown_usage",
    "elo_per_token.csv": "strategy,family,tier,avg_total_tokens,elo,elo_per_1k,gain_per_1k,marginal_elo_per_1k,"
    "marginal_low,marginal_high,family_marginal_elo_per_1k,p_above_threshold,assessment,recommended,more_tasks",
}


def no_calls() -> pl.DataFrame:
    return pl.DataFrame(schema={"task_id": pl.String, "strategy": pl.String})


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_humaneval(tmp_path: Path, humaneval_outcomes: pl.DataFrame, humaneval_calls: pl.DataFrame) -> None:
    five = pl.col("strategy").is_in(HUMANEVAL_FIVE)
    summary = write_report(
        tmp_path,
        outcomes=humaneval_outcomes.filter(five),
        calls=humaneval_calls.filter(five),
        wanted=TABLES,
    )
    assert summary.refusal is None
    assert {path.name for path in summary.files} == {path.name for path in tmp_path.iterdir()}
    for name, header in COLUMNS.items():
        assert (tmp_path / name).read_text().splitlines()[0] == header
    elo = read(tmp_path / "elo_table.csv")
    assert [row["strategy"] for row in elo] == [HUMANEVAL_FIVE[i] for i in (2, 3, 1, 4, 0)]
    assert [round(float(row["elo"]), 3) for row in elo] == [1022.551, 1018.279, 1010.176, 993.994, 955.001]
    warming = read(tmp_path / "elo_per_token.csv")[2]
    assert float(warming["marginal_elo_per_1k"]) == pytest.approx(12.375 / 0.136266, abs=0.01)
    assert (warming["assessment"], warming["recommended"]) == ("worth it", "true")
    weights = pl.read_csv(tmp_path / "comparisons.csv")["weight"]
    assert weights.sum() == pytest.approx(164 * 10)
    results = json.loads((tmp_path / "arena_results.json").read_text())
    assert len(results) == 5 * 5 * 164
    markdown = (tmp_path / "scaling_table.md").read_text()
    assert "Ties: half a win for both; 86.6 % of the comparisons are ties." in markdown
    assert "order by Elo is the order by success rate" in markdown
    assert "imulated" not in markdown
    arena = (tmp_path / "arena_table.md").read_text()
    # 5 strategies x 164 tasks x 5 repeats, and what passed of them.
    assert "| (all) | 820 | 4,100 | 3,556 |" in arena
    assert "something to compare with, no" in arena


def small(tmp_path: Path, rows: list[tuple[str, str, int, bool | None]], **more: object) -> ReportSummary:
    return write_report(tmp_path, outcomes=trials(rows), calls=no_calls(), wanted=TABLES, **more)


TWO = [("t", "a", 1, True), ("t", "b", 1, False), ("u", "a", 1, False), ("u", "b", 1, True)]

DEGENERATE = {
    "no data": ([], {}, "No task has results of two strategies|only 0 strategy"),
    "one strategy": ([("t", "a", 1, True)], {}, "only 1 strategy"),
    "one task": (TWO[:2], {}, None),
    "no successes": ([(t, s, 1, False) for t in "tuv" for s in "ab"], {}, None),
    "all ties, dropped": (
        [(t, s, 1, True) for t in "tuv" for s in "ab"],
        {"options": Options(weighting=Weighting(ties="drop"))},
        "All comparisons are ties",
    ),
    "nothing judged": (
        [(t, s, 1, None) for t in "tuv" for s in "ab"],
        {},
        "No task has results of two strategies",
    ),
    "disjoint tasks": (
        [("t", "a", 1, True), ("u", "b", 1, True)],
        {},
        "No task has results of two strategies",
    ),
    "two islands": (
        TWO + [(t, s, r, ok) for (t, s, r, ok) in [("v", "c", 1, True), ("v", "d", 1, False)]],
        {},
        "2 groups",
    ),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate(tmp_path: Path, case: str) -> None:
    rows, more, refusal = DEGENERATE[case]
    summary = small(tmp_path, rows, **more)
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "nan" not in text.lower()
    if refusal is None:
        assert summary.refusal is None
    else:
        assert re.search(refusal, summary.refusal)
        assert f"No Elo: {summary.refusal}" in summary.warnings
        assert all(row.elo is None for row in summary.rows)


def test_no_successes_are_all_equal_and_unsure(tmp_path: Path) -> None:
    summary = small(tmp_path, DEGENERATE["no successes"][0])
    assert [(row.elo, row.elo_low) for row in summary.rows] == [(1000, None), (1000, None)]
    assert "Only 0 of 3 tasks tell any two strategies apart; on the others all tie." in summary.warnings


def test_unknown_is_an_empty_cell(tmp_path: Path) -> None:
    small(tmp_path, TWO)
    row = read(tmp_path / "strategy_tokens.csv")[0]
    assert (row["avg_total_tokens"], row["avg_cost_usd"], row["unknown_usage"]) == ("", "", "2")
    assert json.loads((tmp_path / "arena_results.json").read_text())[0] == {
        "id": "t",
        "goal": None,
        "strategy": "a",
        "repeat": 1,
        "latency_s": None,
        "prompt_tokens": None,
        "completion_tokens": None,
        "total_tokens": None,
        "estimated_cost": None,
        "output": None,
        "confirmed_success": True,
    }


def test_hostile_names_and_output(tmp_path: Path) -> None:
    names = {"a": '=HYPERLINK("http://e")', "b": 'x|<script>,"模型" 🤖'}
    frame = trials(TWO).with_columns(pl.col("strategy").replace(names), output=pl.lit("\x1b[31m\0</script>"))
    write_report(tmp_path, outcomes=frame, calls=no_calls(), wanted=replace(TABLES, simulated=True))
    listed = {row["strategy"] for row in read(tmp_path / "elo_table.csv")}
    assert listed == {"'" + names["a"], names["b"]}
    assert json.loads((tmp_path / "arena_results.json").read_text())[0]["output"] == "\x1b[31m\0</script>"
    markdown = (tmp_path / "scaling_table.md").read_text()
    assert 'x\\|\\<script\\>,"模型" 🤖' in markdown
    assert "**Simulated answers: they come from a simulated gateway" in markdown


def test_never_lost_is_said_and_open(tmp_path: Path) -> None:
    rows = [(str(task), name, 1, name == "a") for task in range(25) for name in "ab"]
    summary = small(tmp_path, rows)
    assert any(warning.startswith("a never lost against the others") for warning in summary.warnings)
    assert any(warning.startswith("b never won against the others") for warning in summary.warnings)
    elo = read(tmp_path / "elo_table.csv")
    assert (elo[0]["elo_high"], elo[1]["elo_low"]) == ("inf", "-inf")
    assert "open" in (tmp_path / "scaling_table.md").read_text()


def test_missing_trials_are_said(tmp_path: Path) -> None:
    frame = trials([*TWO, ("v", "a", 1, None)]).with_columns(status=pl.Series(["ok"] * 4 + ["failed"]))
    summary = write_report(tmp_path, outcomes=frame, calls=no_calls(), wanted=TABLES)
    assert "Left out: 1 trial without an answer (1 failed): missing, not failed." in summary.notes


def test_verdicts_can_take_the_place_of_outcomes(tmp_path: Path) -> None:
    verdicts = pl.DataFrame({"task_id": ["t", "u", "t"], "winner": ["b", "b", "a"], "loser": ["a", "a", "b"]})
    summary = small(tmp_path, TWO, comparisons=verdicts)
    assert {row.strategy: row.elo > 1000 for row in summary.rows} == {"a": False, "b": True}


def test_nothing_is_left_behind_when_a_table_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FrameError):
        small(tmp_path, [*TWO, TWO[0]])
    assert list(tmp_path.iterdir()) == []


def test_the_result_is_told_before_the_charts_are_drawn(tmp_path: Path) -> None:
    told: list[tuple[ReportSummary, bool, bool]] = []

    def analysed(summary: ReportSummary) -> None:
        told.append((summary, (tmp_path / "elo_table.csv").exists(), (tmp_path / "report.html").exists()))

    rows = [("t1", "a", 1, True), ("t1", "b", 1, False), ("t2", "a", 1, False), ("t2", "b", 1, True)]
    summary = write_report(tmp_path, outcomes=trials(rows), calls=no_calls(), analysed=analysed)
    assert [(replace(summary, files=()), True, False)] == told
    assert tmp_path / "report.html" in summary.files
