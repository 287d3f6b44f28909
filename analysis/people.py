"""Comparisons that people made of a run's answers, from their own files; what does not fit the run is refused by line.

| columns | one row is |
|---|---|
| `task_id, winner, loser` and optionally `tie`, `weight` | a comparison |
| `task_id, strategy, rank` and optionally `repeat` (who ranked) | one place in a ranking |
| `task_id, model_a, model_b, winner` (`model_a`, `model_b` or a tie) | a comparison in the arena's format |
"""

import csv
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from analysis.errors import FrameError
from analysis.frames import truth
from analysis.sources import arena_comparisons, is_arena_label, ranking_comparisons, read_table


def people_comparisons(path: Path, *, tasks: Collection[str], strategies: Sequence[str]) -> pl.DataFrame:
    """The comparisons of a file: `task_id, winner, loser, tie, weight, items`, as far as it has them.

    Raises:
        FrameError: one line with file and line: a task or strategy that the run has not, a label that is none, a
            missing column or an empty cell.
    """
    frame = read_table(path)
    ranking, arena = "rank" in frame.columns, {"model_a", "model_b"} <= set(frame.columns)
    needed = (
        ("strategy", "rank")
        if ranking
        else ("model_a", "model_b", "winner")
        if arena
        else ("winner", "loser")
    )
    for name in ("task_id", *needed):
        if name not in frame.columns:
            raise FrameError(
                f"{path}: no column {name}. Give task_id, winner, loser; or task_id, strategy, rank; or "
                "task_id, model_a, model_b, winner."
            )
    frame = frame.with_columns(pl.col("task_id", *set(needed) - {"rank"}).cast(pl.String))
    _refuse_rows(path, frame, needed, tasks=tasks, strategies=strategies)
    frame = frame.filter(pl.col("task_id").is_not_null())
    if ranking:
        return _located(path, frame)
    if arena:
        frame = arena_comparisons(frame)
    if "tie" in frame.columns and frame["tie"].dtype == pl.String:
        frame = frame.with_columns(truth(frame["tie"], name=str(path)))
    return frame.select(
        name for name in ("task_id", "winner", "loser", "tie", "weight") if name in frame.columns
    )


def _refuse_rows(
    path: Path,
    frame: pl.DataFrame,
    needed: Sequence[str],
    *,
    tasks: Collection[str],
    strategies: Sequence[str],
) -> None:
    for row, cells in enumerate(frame.iter_rows(named=True), start=1):
        blank = all(cell is None for cell in cells.values())
        problem = None if blank else _problem(cells, needed, tasks=tasks, strategies=strategies)
        if problem:
            raise FrameError(f"{_place(path, row)}: {problem}.")


def _problem(
    cells: Mapping[str, Any], needed: Sequence[str], *, tasks: Collection[str], strategies: Sequence[str]
) -> str | None:
    """What is wrong with one row."""
    empty = [name for name in ("task_id", *needed) if cells[name] is None]
    if empty:
        return f"{empty[0]} is empty"
    if cells["task_id"] not in tasks:
        return f"unknown task {cells['task_id']!r}; the run has no such task_id"
    arena = "model_a" in needed
    if arena and not is_arena_label(cells["winner"]):
        return f"winner is {cells['winner']!r}; allowed are model_a, model_b and tie"
    named = ("model_a", "model_b") if arena else [name for name in needed if name != "rank"]
    for name in named:
        if cells[name] not in strategies:
            return f"unknown strategy {cells[name]!r} in {name}; the run has {', '.join(strategies)}"
    if len(named) == 2 and cells[named[0]] == cells[named[1]]:
        return f"{cells[named[0]]!r} is compared with itself"
    return None


def _located(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    try:
        return ranking_comparisons(frame).drop("repeat")
    except (FrameError, pl.exceptions.PolarsError) as error:
        raise FrameError(f"{path}: {str(error).splitlines()[0]}") from None


def _place(path: Path, row: int) -> str:
    """Where the nth row of a table stands in its file."""
    name = path.name.lower()
    if name.endswith(".csv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            for number, _ in enumerate(lines):
                if number == row:
                    # A quoted cell may go over several lines: the row ends at the one that was read last.
                    return f"{path}:{lines.line_num}"
    return f"{path}:{row}" if name.endswith((".jsonl", ".ndjson")) else f"{path}: row {row}"
