"""People's comparisons, and the line that is wrong in them; ranking by rules."""

from pathlib import Path

import polars as pl
import pytest

from analysis.comparisons import cells_from_outcomes
from analysis.errors import FrameError
from analysis.frames import outcomes_frame
from analysis.people import people_comparisons
from analysis.rules import by_rules

TASKS, STRATEGIES = {"t1", "t2", "7"}, ["a", "b", "c"]


def read(tmp_path: Path, text: str, name: str = "people.csv") -> pl.DataFrame:
    (tmp_path / name).write_text(text)
    return people_comparisons(tmp_path / name, tasks=TASKS, strategies=STRATEGIES)


def test_comparisons_with_ties_and_weights(tmp_path: Path) -> None:
    found = read(tmp_path, "task_id,winner,loser,tie,weight\nt1,a,b,no,2\nt2,b,c,yes,1\n")
    assert found.rows() == [("t1", "a", "b", False, 2), ("t2", "b", "c", True, 1)]


def test_names_may_look_like_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, "task_id,winner,loser\n7,a,b\n").rows() == [("7", "a", "b")]


def test_a_ranking_is_all_its_pairs(tmp_path: Path) -> None:
    found = read(tmp_path, "task_id,strategy,rank\nt1,a,2\nt1,b,1\nt1,c,2\n")
    assert sorted(found.select("winner", "loser", "tie", "items").rows()) == [
        ("a", "c", True, 3.0),
        ("b", "a", False, 3.0),
        ("b", "c", False, 3.0),
    ]


def test_the_arena_format(tmp_path: Path) -> None:
    found = read(tmp_path, "task_id,model_a,model_b,winner\nt1,a,b,model_b\nt2,b,c,tie (bothbad)\n")
    assert found.rows() == [("t1", "b", "a", False), ("t2", "b", "c", True)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "task_id,winner,loser\nt1,a,b\nt1,a,d\n",
            r"people.csv:3: unknown strategy 'd' in loser; the run has a, b, c.",
        ),
        ("task_id,winner,loser\nt9,a,b\n", r"people.csv:2: unknown task 't9'"),
        ("task_id,winner,loser\nt1,a,b\n\nt2,a,a\n", r"people.csv:4: 'a' is compared with itself."),
        ('task_id,winner,loser,said\nt1,a,b,"two\nlines"\nt1,a,x,\n', r"people.csv:4: unknown strategy 'x'"),
        ("task_id,winner,loser\nt1,a,\n", r"people.csv:2: loser is empty."),
        ("task_id,strategy,rank\nt1,a,1\nt1,B,2\n", r"people.csv:3: unknown strategy 'B' in strategy"),
        ("task_id,strategy,rank\nt1,a,1\nt1,a,2\n", r"people.csv: rankings: 'a' stands twice"),
        (
            "task_id,model_a,model_b,winner\nt1,a,b,model_a\nt1,a,b,left\nt1,a,b,nobody\n",
            r"people.csv:4: winner is 'nobody'; allowed are model_a, model_b and tie.",
        ),
        ("task_id,winner\nt1,a\n", r"people.csv: no column loser."),
        ("winner,loser\na,b\n", r"people.csv: no column task_id."),
        (
            "task_id,winner,loser,tie\nt1,a,b,maybe\n",
            r"people.csv: tie holds 'maybe'; allowed are true and false.",
        ),
    ],
)
def test_what_does_not_fit_the_run_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FrameError) as refused:
        read(tmp_path, text)
    assert message in str(refused.value)


def test_a_line_of_json(tmp_path: Path) -> None:
    lines = '{"task_id":"t1","winner":"a","loser":"b"}\n{"task_id":"t1","winner":"a","loser":"z"}\n'
    with pytest.raises(FrameError, match=r"people.jsonl:2: unknown strategy 'z'"):
        read(tmp_path, lines, "people.jsonl")


def test_rules_rank_by_checks_and_then_by_scores() -> None:
    rows = [
        # a passes with a poor score, b fails with the best one, c passes with a good one, d passes with the same
        ("t1", "a", True, 1.0), ("t1", "b", False, 9.0), ("t1", "c", True, 5.0), ("t1", "d", True, 5.0),
        # without scores the checks alone; without either no comparison
        ("t2", "a", True, None), ("t2", "b", False, None), ("t2", "c", None, None), ("t2", "d", True, None),
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=["task_id", "strategy", "confirmed_success", "score"], orient="row")
    cells = cells_from_outcomes(outcomes_frame(by_rules(frame)), ["a", "b", "c", "d"])
    names = "abcd"
    found = {
        (cells.tasks[t], names[i], names[j]): (win, loss, tie)
        for t, i, j, win, loss, tie in zip(
            cells.task, cells.first, cells.second, cells.win, cells.loss, cells.tie, strict=True
        )
    }
    won, lost, tied = (1, 0, 0), (0, 1, 0), (0, 0, 1)
    assert found == {
        ("t1", "a", "b"): won, ("t1", "a", "c"): lost, ("t1", "a", "d"): lost, ("t1", "b", "c"): lost,
        ("t1", "b", "d"): lost, ("t1", "c", "d"): tied,
        ("t2", "a", "b"): won, ("t2", "a", "d"): tied, ("t2", "b", "d"): lost,
    }  # fmt: skip
