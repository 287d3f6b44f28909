"""The frames that the analysis takes hold what the ledger holds: same rows, same unknowns, right types."""

import json
from pathlib import Path

import polars as pl

from analysis.frames import CALLS, OUTCOMES, STRATEGIES
from db.connection import Connection
from db.frames import read_frames
from db.ledger import export_lines
from db.ledger_files import ledger_file
from db.ledger_import import import_ledger
from db.runs import find_run
from tests.ledgers import row, unanswered, write_lines

ROWS = [
    row(task_id="t1", cost_usd=None, finish_reason=""),
    row(task_id="t2", input_tokens=0, output_tokens=0, total_tokens=0, cost_usd=0.0, latency_ms=0),
    unanswered(task_id="t3"),
    unanswered("unknown", "timeout", task_id="t4", finished_at=None),
    row(task_id="t4", attempt=2, purpose="retry", retry_reason="timeout"),
    row(task_id='a "quoted", \n task', strategy="null", model="\\N", worker="t"),
]


def frames_of(
    connection: Connection, tmp_path: Path, rows: list[dict[str, object]]
) -> tuple[pl.DataFrame, ...]:
    import_ledger(connection, ledger_file(write_lines(tmp_path / "l.jsonl", rows)))
    found = read_frames(connection, run=find_run(connection, "theirs")["id"])
    return found.outcomes, found.calls, found.strategies


def test_calls_equal_the_ledger(connection: Connection, tmp_path: Path) -> None:
    _, calls, _ = frames_of(connection, tmp_path, ROWS)
    ledger = [json.loads(line) for line in export_lines(connection, run=find_run(connection, "theirs")["id"])]
    not_read = (
        "content usage run_id source_platform response_id first_byte_ms finish_reason worker started_at finished_at "
        "cached_input_tokens reasoning_tokens"
    )
    assert set(CALLS) - set(calls.columns) == set(not_read.split())

    def rows(found: list[dict[str, object]]) -> list[tuple[object, ...]]:
        return sorted((tuple(line[name] for name in calls.columns) for line in found), key=repr)

    assert rows(calls.to_dicts()) == rows(ledger)


def test_every_column_has_the_type_that_the_analysis_declares(connection: Connection, tmp_path: Path) -> None:
    outcomes, calls, strategies = frames_of(connection, tmp_path, ROWS)
    assert dict(outcomes.schema) == {name: column.dtype for name, column in OUTCOMES.items()}
    assert dict(strategies.schema) == {name: column.dtype for name, column in STRATEGIES.items()}
    assert dict(calls.schema) == {name: CALLS[name].dtype for name in calls.columns}


def test_a_run_without_calls_has_empty_frames_of_the_same_types(
    connection: Connection, tmp_path: Path
) -> None:
    calls = frames_of(connection, tmp_path, ROWS)[1]
    nobody = read_frames(connection, run=0)
    assert (nobody.outcomes.height, nobody.calls.height, nobody.strategies.height) == (0, 0, 0)
    assert nobody.calls.schema == calls.schema


def test_texts_that_no_frame_can_hold_are_shown_escaped(connection: Connection, tmp_path: Path) -> None:
    text = "nul \x00, half \ud800, mark \uf8f0"
    shown = "nul \x00, half \\ud800, mark \uf8f0"
    lines = [row(task_id=text, strategy=text, model=text)]
    outcomes, calls, strategies = frames_of(connection, tmp_path, lines)
    assert outcomes["task_id"].to_list() == calls["task_id"].to_list() == [shown]
    assert outcomes["strategy"].to_list() == strategies["strategy"].to_list() == [shown]
    assert calls["model"].to_list() == [shown]
