"""A ledger file that cannot be imported: one line that says where and what, and nothing of it in the database."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.errors import FrameError
from analysis.sources import read_table
from db.connection import Connection
from db.errors import LedgerInvalid
from db.ledger_files import existing_file, ledger_file
from db.ledger_import import import_ledger
from tests.ledgers import row, unanswered, write_lines

KEY = "the same task, strategy, repeat, try, round, sample, attempt, turn as in line"

# name -> (second line of the file, what the message says of it)
LINES: dict[str, tuple[Any, str]] = {
    "no JSON": ('{"run_id": ', "l.jsonl:2: not JSON: EOF while parsing a value at column 10."),
    "no object": ("[1, 2]", "l.jsonl:2: a row is a JSON object with the ledger's fields."),
    "cut line": (json.dumps(row())[:-20], "l.jsonl:2: not JSON: EOF while parsing"),
    "unknown field": (row(x1=1), "l.jsonl:2: x1: no field of the ledger. Allowed: run_id, source_platform,"),
    "misspelt field": (row(imput_tokens=1), "imput_tokens: no field of the ledger. Did you mean 'input_tokens'?"),
    "missing field": ({k: v for k, v in row().items() if k != "model"}, "l.jsonl:2: model: missing"),
    "null name": (row(task_id=None), "l.jsonl:2: task_id: Input should be a valid string (found None)."),
    "no strategy": (row(strategy=None), "strategy: missing; every row but a judge's has one."),
    "a judge's strategy": (row(kind="judge"), "strategy: the call of a judge belongs to none."),
    "half a verdict": (row(winner="a"), "winner: as many names as opponent has, or both empty."),
    "uneven verdicts": (
        row(winner=["x", "x"], opponent=["x", "y", "z"]),
        "winner: as many names as opponent has, or both empty.",
    ),
    "a third one wins": (
        row(winner="x", opponent="y"),
        "winner: the row's strategy, its opponent or 'tie', found 'x'.",
    ),
    "empty name": (row(strategy=""), "strategy: String should have at least 1 character (found '')."),
    "text for a number": (row(input_tokens="7"), "input_tokens: Input should be a valid integer (found '7')."),
    "part of a token": (row(total_tokens=1.5), "total_tokens: Input should be a valid integer"),
    "negative tokens": (row(output_tokens=-1), "output_tokens: Input should be greater than or equal to 0 (found -1)."),
    "negative cost": (row(cost_usd=-0.1), "cost_usd: Input should be greater than or equal to 0 (found -0.1)."),
    "infinite cost": (json.dumps(row(cost_usd=float("inf"))), "cost_usd: Input should be a finite number (found inf)."),
    "too many tokens": (row(total_tokens=2**31), "total_tokens: Input should be less than or equal to 2147483647"),
    "attempt 0": (row(attempt=0), "attempt: Input should be greater than or equal to 1 (found 0)."),
    "truth as text": (row(used="true"), "used: Input should be a valid boolean (found 'true')."),
    "unknown status": (row(status="done"), "status: Input should be 'ok', 'error' or 'unknown' (found 'done')."),
    "unknown purpose": (row(purpose="second"), "purpose: Input should be 'first', 'retry' or 'rerun'"),
    "unknown kind": (row(kind="chat"), "kind: Input should be 'generation' or 'judge' (found 'chat')."),
    "time without zone": (row(started_at="2026-01-02T03:04:05"), "started_at: Input should have timezone info"),
    "no time": (row(started_at="yesterday"), "started_at: Input should be a valid datetime"),
    "used error": (unanswered(task_id="t2") | {"used": True}, "l.jsonl:2: used: true, but status is 'error'"),
    "second run": (row(run_id="other", task_id="t2"), "l.jsonl:2: run_id: 'other', but 'theirs' in line 1."),
    "second platform": (row(source_platform="x", task_id="t2"), "source_platform: 'x', but 'local' in line 1."),
    "repeated key": (row(response_id="another"), f"l.jsonl:2: {KEY} 1. Remove one."),
    "two answers": (row(attempt=2), "l.jsonl:2: used is true for two attempts of one call as in line 1."),
    "usage beyond numbers": (
        json.dumps(row(task_id="t2", usage="#")).replace('"#"', "1e999999"),
        "l.jsonl:2: usage: every number in it is finite and below 1.8e308, found inf.",
    ),
    "usage that is no JSON": (
        json.dumps(row(task_id="t2", usage={"a": [float("nan")]})),
        "l.jsonl:2: usage: every number in it is finite and below 1.8e308, found nan.",
    ),
    "a cost that sums to infinity": (
        row(cost_usd=1e308),
        "l.jsonl:2: cost_usd: Input should be less than or equal to 1000000000",
    ),
    "long strategy": (row(strategy="x" * 101), "l.jsonl:2: strategy: String should have at most 100 characters"),
    "long opponent": (row(winner="tie", opponent="x" * 101), "opponent: String should have at most 100 characters"),
    "long task": (row(task_id="x" * 201), "l.jsonl:2: task_id: String should have at most 200 characters"),
    "long run id": (row(run_id="x" * 201), "l.jsonl:2: run_id: String should have at most 200 characters"),
    # 14 hours before year 1, and the first instant of 1970 less one second
    "year 0 in UTC": (
        row(started_at="0001-01-01T00:00:00+14:00"),
        "l.jsonl:2: started_at: a time from 1970-01-01 to 9998-12-31 in UTC, found 0001-01-01T00:00:00+14:00.",
    ),
    "before 1970 in UTC": (row(started_at="1970-01-01T00:59:59+01:00"), "l.jsonl:2: started_at: a time from 1970"),
    "year 10000 in UTC": (row(finished_at="9999-12-31T23:00:00-14:00"), "l.jsonl:2: finished_at: a time from 1970"),
}  # fmt: skip


def refusal(connection: Connection, path: Path, **changes: Any) -> str:
    """The message; afterwards the database is as it was."""
    with pytest.raises(LedgerInvalid) as refused:
        import_ledger(connection, ledger_file(path), **changes)
    for table in ("run", "task", "strategy", "trial", "job", "call", "tally", "lane"):
        counted = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert counted == {"count": 0}, table
    return str(refused.value)


@pytest.mark.parametrize("case", LINES)
def test_a_wrong_line_is_named(connection: Connection, tmp_path: Path, case: str) -> None:
    line, message = LINES[case]
    path = tmp_path / "l.jsonl"
    second = line if isinstance(line, str) else json.dumps(line)
    path.write_text(f"{json.dumps(row())}\n{second}\n")
    said = refusal(connection, path)
    assert message in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.jsonl", b"", "l.jsonl: holds no row."),
        ("l.jsonl", b"\n \n", "l.jsonl: holds no row."),
        ("l.jsonl", b'{"run_id": "\xff"}', "l.jsonl:1: not JSON: invalid unicode code point"),
        ("l.jsonl.gz", b"not packed", "l.jsonl.gz: no gzip file, or a damaged one."),
        (
            "l.jsonl.gz",
            gzip.compress(b"{}" * 999, mtime=0)[:-9],
            "l.jsonl.gz: no gzip file, or a damaged one.",
        ),
        ("l.csv", b"", "l.csv: cannot be read as csv: "),
        ("l.csv", b"run_id\nx\n", "l.csv: row 1: source_platform: missing"),
        ("l.csv", b"run_id,tokens\nx,1\n", "l.csv: row 1: "),
        ("l.parquet", b"PAR1 and no more", "l.parquet: cannot be read as parquet: "),
        ("l.parquet", None, "l.parquet: cannot be read"),
        ("l.jsonl", None, "l.jsonl: cannot be read (No such file or directory)."),
        ("l.csv", None, "l.csv: cannot be read"),
    ],
)
def test_a_file_that_is_none_is_named(
    connection: Connection, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert message in refusal(connection, tmp_path / name)


@pytest.mark.parametrize(
    ("field", "cell", "message"),
    [
        (
            "input_tokens",
            "many",
            "l.csv: row 2: input_tokens: Input should be a valid integer (found 'many').",
        ),
        (
            "input_tokens",
            "1,200",
            "l.csv: row 2: input_tokens: Input should be a valid integer (found '1,200').",
        ),
        ("used", "TRUE", "l.csv: row 2: used: Input should be a valid boolean (found 'TRUE')."),
        ("task_id", "", "l.csv: row 2: task_id: Input should be a valid string (found None)."),
        ("usage", '{"total_tokens": 1', "l.csv: row 2: usage: no JSON. Write it as the gateway reported it."),
    ],
)
def test_a_wrong_cell_is_named(
    connection: Connection, tmp_path: Path, field: str, cell: str, message: str
) -> None:
    lines = [row(), row(task_id="t2") | {field: cell}]
    with (tmp_path / "l.csv").open("w", newline="") as file:
        written = csv.DictWriter(file, fieldnames=list(row()))
        written.writeheader()
        for line in lines:
            cells = {name: json.dumps(v) if isinstance(v, bool | dict) else v for name, v in line.items()}
            written.writerow(cells)
    assert message in refusal(connection, tmp_path / "l.csv")


@pytest.mark.parametrize("name", ["l.txt", "l", "l.jsonl.zip", "l.parquet.gz"])
def test_an_ending_that_names_no_format_is_refused_unless_one_is_given(tmp_path: Path, name: str) -> None:
    with pytest.raises(LedgerInvalid, match=r"--format|\.gz"):
        ledger_file(tmp_path / name)
    if not name.endswith(".gz"):
        assert ledger_file(tmp_path / name, "csv").format == "csv"


@pytest.mark.parametrize("name", ["nofile", "nofile.jsonl", "nofile.csv.gz"])
def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path, name: str) -> None:
    """Before its ending is looked at."""
    with pytest.raises(LedgerInvalid, match=f"/{name}: there is no such file"):
        existing_file(tmp_path / name)
    with pytest.raises(FrameError, match=f"/{name}: there is no such file"):
        read_table(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(LedgerInvalid, match=f"/{name}: is a directory"):
        existing_file(tmp_path / name)
    with pytest.raises(FrameError, match=f"/{name}: is a directory"):
        read_table(tmp_path / name)


def test_a_name_that_is_taken_is_refused_with_advice(connection: Connection, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "l.jsonl", [row()])
    import_ledger(connection, ledger_file(path))
    with pytest.raises(LedgerInvalid, match=r"'theirs' is there already\. .* --run-id"):
        import_ledger(connection, ledger_file(path))
    assert import_ledger(connection, ledger_file(path), run_id="theirs.2").run_id == "theirs.2"
    assert connection.execute("SELECT count(*) FROM call").fetchone() == {"count": 2}


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x\n", "a b", "x" * 101])
def test_a_name_that_is_no_folder_s_is_refused(connection: Connection, tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / "l.jsonl", [row()])
    assert "--run-id" in refusal(connection, path, run_id=name)


def judged(strategy: str, winner: Any, opponent: Any, **changes: Any) -> dict[str, Any]:
    return row(strategy=strategy, winner=winner, opponent=opponent, **changes)


A_WON = judged("a", "a", "b")
STORIES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "one knows of none": (
        [A_WON, judged("b", None, None)],
        "l.jsonl:1: winner: the rows of 'b' do not say the same of this verdict.",
    ),
    "the other knows of none": (
        [judged("a", None, None), judged("b", "b", "a")],
        "l.jsonl:2: winner: the rows of 'a' do not say the same of this verdict.",
    ),
    "both have won": (
        [A_WON, judged("b", "b", "a")],
        "l.jsonl:1: winner: the rows of 'b' in line 2 do not say the same of this verdict.",
    ),
    "a tie for one": (
        [A_WON, judged("b", "tie", "a")],
        "l.jsonl:1: winner: the rows of 'b' in line 2 do not",
    ),
    "twice and once": (
        [judged("a", ["a", "a"], ["b", "b"]), judged("b", "a", "a")],
        "l.jsonl:1: winner: the rows of 'b' in line 2 do not say the same of this verdict.",
    ),
}


@pytest.mark.parametrize("case", STORIES)
def test_two_trials_that_tell_a_verdict_differently_are_named(
    connection: Connection, tmp_path: Path, case: str
) -> None:
    rows, message = STORIES[case]
    assert message in refusal(connection, write_lines(tmp_path / "l.jsonl", rows))


def test_verdicts_in_another_order_are_the_same(connection: Connection, tmp_path: Path) -> None:
    rows = [judged("a", ["a", "tie", "b"], ["b"] * 3), judged("b", ["b", "a", "tie"], ["a"] * 3)]
    import_ledger(connection, ledger_file(write_lines(tmp_path / "l.jsonl", rows)))
    found = connection.execute("SELECT count(*), count(*) FILTER (WHERE tie) AS ties FROM verdict").fetchone()
    assert found == {"count": 3, "ties": 1}


@pytest.mark.parametrize("order", [(1, 2), (2, 1)], ids=["sorted", "reversed"])
@pytest.mark.parametrize("used", [(True, False), (False, True)], ids=["first used", "last used"])
def test_turns_of_an_attempt_are_used_together(
    connection: Connection, tmp_path: Path, order: tuple[int, int], used: tuple[bool, bool]
) -> None:
    rows = [row(turn=turn, used=used[turn - 1]) for turn in order]
    said = refusal(connection, write_lines(tmp_path / "l.jsonl", rows))
    assert said.endswith(
        "l.jsonl:2: used is not the same for all turns of one attempt as in line 1. Give all of them the same."
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [row(turn=turn, used=turn != 2) for turn in (1, 2, 3)],
            "used is not the same for all turns of one attempt",
        ),
        (
            [row(attempt=attempt, turn=turn) for attempt, turn in ((1, 1), (2, 1), (1, 2))],
            "used is true for two attempts of one call",
        ),
        (
            [row(sample=sample, winner="tie", opponent="x" if sample == 2 else "y") for sample in (1, 2, 3)],
            "winner and opponent of one trial are not the same",
        ),
    ],
    ids=["used in part", "answered twice", "judged twice"],
)
def test_the_two_lines_named_are_two_that_disagree(
    connection: Connection, tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    """The third row says what the first one does."""
    said = refusal(connection, write_lines(tmp_path / "l.jsonl", rows))
    assert f"l.jsonl:2: {message} as in line 1." in said


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("usage", pl.Series([{"total_tokens": 3}] * 2), "l.parquet: usage: a column of Struct"),
        ("winner", pl.Series([["tie"], None]), "l.parquet: winner: a column of List"),
        ("content", pl.Series([b"abc", b"x"]), "l.parquet: content: a column of Binary"),
        (
            "cost_usd",
            pl.Series([1.0, float("inf")]),
            "l.parquet: row 2: cost_usd: Input should be a finite number (found inf).",
        ),
        (
            "cost_usd",
            pl.Series([float("nan"), None]),
            "l.parquet: row 1: cost_usd: Input should be a finite number (found nan).",
        ),
        ("usage", pl.Series(["{}", "None"]), "l.parquet: row 2: usage: no JSON."),
        ("usage", pl.Series(["{}", ""]), "l.parquet: row 2: usage: no JSON."),
    ],
    ids=["struct", "list", "bytes", "infinity", "not a number", "no JSON", "empty"],
)
def test_a_table_that_holds_no_ledger_is_named(
    connection: Connection, tmp_path: Path, column: str, values: pl.Series, message: str
) -> None:
    rows = [row(usage='{"total_tokens": 3}'), row(task_id="t2", usage=None)]
    table = pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.col("started_at", "finished_at").str.to_datetime(time_zone="UTC"), values.alias(column)
    )
    table.write_parquet(tmp_path / "l.parquet")
    said = refusal(connection, tmp_path / "l.parquet")
    assert message in said
    assert "\n" not in said
