"""A ledger is imported in whatever order its rows stand, a part at a time, and whole or not at all."""

import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from db import background, ledger_files, ledger_frames, ledger_import, ledger_loading
from db.connection import Connection
from db.errors import LedgerInvalid
from db.ledger import WRITERS, export_lines
from db.ledger import frames as exported
from db.ledger_files import ledger_file
from db.ledger_groups import Batch, Groups
from db.ledger_import import import_ledger
from db.runs import find_run
from paretoken.ledger import write_ledger
from tests.integration.db.test_ledger_roundtrip import HISTORY
from tests.ledgers import row, unanswered, write_lines

TABLES = ("run", "task", "strategy", "trial", "judging", "job", "call", "tally", "lane", "verdict")

STATE = """
SELECT task.task_id, task.position, strategy.name, strategy.position AS place, trial.repeat, trial.state, trial.try,
       trial.reason, trial.started_at, trial.finished_at, job.try AS job_try, job.round, job.sample, job.attempt,
       job.answer_attempt, job.state AS job_state, job.error, judging.number, lane.model
FROM job JOIN lane ON lane.id = job.lane
LEFT JOIN trial ON trial.id = job.trial LEFT JOIN strategy ON strategy.id = trial.strategy
LEFT JOIN judging ON judging.id = job.judging JOIN task ON task.id = coalesce(trial.task, judging.task)
WHERE job.run = %s
ORDER BY task.task_id, strategy.name, coalesce(trial.repeat, judging.repeat), job.try, job.round, job.sample"""


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that a few rows are several."""
    monkeypatch.setattr(ledger_files, "_BATCH_ROWS", 3)
    monkeypatch.setattr(ledger_files, "_BLOCK_BYTES", 2_000)
    monkeypatch.setattr(ledger_frames, "_BATCH_ROWS", 3)


@pytest.fixture
def history() -> list[dict[str, Any]]:
    """As an export orders it, after which every task has rows of its own only."""
    key = ("task_id", "strategy", "repeat", "try", "round", "sample", "attempt", "turn")
    rows = sorted(HISTORY, key=lambda row: [row[field] if row[field] is not None else "~" for field in key])
    return [*rows, row(task_id="t0", model="another", cost_usd=None)]


def imported(connection: Connection, path: Path, run_id: str) -> tuple[list[Any], list[Any], Any]:
    """What the import made of the file: rows of the ledger, states, and the run with its sums."""
    made = import_ledger(connection, ledger_file(path), run_id=run_id)
    run = find_run(connection, run_id)["id"]
    ledger = [json.loads(line) | {"run_id": ""} for line in export_lines(connection, run=run)]
    assert made.rows == len(ledger)
    states = connection.execute(STATE, [run]).fetchall()
    sums = connection.execute(
        "SELECT experiment, created_at, finished_at, simulated, ok_calls, error_calls, unknown_calls, input_tokens, "
        "output_tokens, round(cost_usd::numeric, 9), unknown_usage_calls FROM run JOIN tally ON tally.run = run.id "
        "WHERE run.id = %s",
        [run],
    ).fetchone()
    return ledger, states, (made.trials, sums)


def in_the_order_of_tasks(states: list[Any]) -> list[Any]:
    return [
        {name: value for name, value in state.items() if name not in ("position", "place")}
        for state in states
    ]


def test_the_order_of_rows_does_not_matter(
    connection: Connection, tmp_path: Path, history: list[dict[str, Any]]
) -> None:
    ledger, states, sums = imported(connection, write_lines(tmp_path / "l.jsonl", history), "sorted")
    # 9 tasks, of which t8 has three trials, t9 four, and t0 one.
    assert sums[0] == 7 + 3 + 4 + 1
    for seed in range(5):
        random.Random(seed).shuffle(history)
        path = write_lines(tmp_path / "l.jsonl", history)
        found, shuffled, also = imported(connection, path, f"shuffled-{seed}")
        assert (found, also) == (ledger, sums)
        assert in_the_order_of_tasks(shuffled) == in_the_order_of_tasks(states)
        for name, field, position in (("task_id", "task_id", "position"), ("name", "strategy", "place")):
            first = dict.fromkeys(line[field] for line in history if line[field])
            places = {state[name]: state[position] for state in shuffled if state[name]}
            assert places == {value: number for number, value in enumerate(first, start=1)}


@pytest.mark.parametrize("format_", WRITERS)
def test_rows_that_belong_together_may_be_in_different_parts(
    connection: Connection,
    tmp_path: Path,
    history: list[dict[str, Any]],
    format_: str,
    request: pytest.FixtureRequest,
) -> None:
    turns = [
        row(task_id="t4", strategy="agent", repeat=2, turn=turn, response_id=f"r-{turn}")
        for turn in range(1, 30)
    ]
    path = write_lines(tmp_path / "l.jsonl", [*turns, *history])
    whole = imported(connection, path, "whole")
    write_ledger(connection, "whole", tmp_path / f"l.{format_}")
    request.getfixturevalue("small_parts")
    ledger, states, sums = imported(connection, tmp_path / f"l.{format_}", "parts")
    assert (ledger, sums) == (whole[0], whole[2])
    assert in_the_order_of_tasks(states) == in_the_order_of_tasks(whole[1])


def test_only_a_part_of_the_file_is_in_memory(
    connection: Connection, tmp_path: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    add = Groups.add

    def counted(self: Groups, frame: pl.DataFrame) -> Batch | None:
        batch = add(self, frame)
        assert self._open is not None
        sizes.append(self._open.height + (len(batch.lines) if batch else 0))
        return batch

    monkeypatch.setattr(Groups, "add", counted)
    path = write_lines(
        tmp_path / "l.jsonl", [row(task_id=f"t{n:04}", response_id=f"{n}") for n in range(1000)]
    )
    assert import_ledger(connection, ledger_file(path)).rows == 1000
    # A line has some 700 bytes: three fill a block of 2,000, and one row waits for more of its trial.
    assert len(sizes) >= 300
    assert max(sizes) <= 4


def nothing_is_left(connection: Connection) -> bool:
    counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in TABLES]
    return all(count == {"count": 0} for count in counts) and not [
        thread for thread in threading.enumerate() if thread.name.startswith("paretoken-postgres")
    ]


def test_an_error_at_the_end_leaves_nothing(
    connection: Connection, tmp_path: Path, small_parts: None
) -> None:
    rows = [row(task_id=f"t{n:04}") for n in range(300)]
    path = write_lines(tmp_path / "l.jsonl", [*rows, row(task_id="t1", attempt=0)])
    with pytest.raises(LedgerInvalid, match=r"l\.jsonl:301: attempt: Input should be greater than"):
        import_ledger(connection, ledger_file(path))
    assert nothing_is_left(connection)


def test_an_interrupt_leaves_nothing(
    connection: Connection, tmp_path: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for number, frame in enumerate(frames):
            if number == 50:
                raise KeyboardInterrupt
            yield frame

    load = ledger_loading.load
    monkeypatch.setattr(
        ledger_import, "load", lambda *given, **named: load(*given[:2], interrupted(given[2]), **named)
    )
    path = write_lines(tmp_path / "l.jsonl", [row(task_id=f"t{n:04}") for n in range(300)])
    with pytest.raises(KeyboardInterrupt):
        import_ledger(connection, ledger_file(path))
    assert nothing_is_left(connection)


@pytest.mark.parametrize(
    "texts", [{}, {0: "a\rb\nc\n", 1: "\r\n\r\r", 120: "\n\n\n"}], ids=["plain", "line ends"]
)
@pytest.mark.parametrize("number", ["1e-20000", "1e999999"])
def test_what_postgres_alone_refuses_is_named_by_its_line(
    connection: Connection,
    tmp_path: Path,
    small_parts: None,
    monkeypatch: pytest.MonkeyPatch,
    texts: dict[int, str],
    number: str,
) -> None:
    monkeypatch.setattr(ledger_frames, "plainly_right", lambda table: True)
    lines = [json.dumps(row(task_id=f"t{n:04}", content=texts.get(n, "x"))) for n in range(300)]
    lines[200] = json.dumps(row(task_id="t0200", content="\n\r", usage="#")).replace('"#"', number)
    (tmp_path / "l.jsonl").write_text("\n".join(lines))
    with pytest.raises(LedgerInvalid, match=r"l\.jsonl:201: value overflows numeric format"):
        import_ledger(connection, ledger_file(tmp_path / "l.jsonl"))
    assert nothing_is_left(connection)


CONTRADICTIONS = [
    (
        [row(response_id="another")],
        "the same task, strategy, repeat, try, round, sample, attempt, turn as in line 2. Remove one.",
    ),
    (
        [row(attempt=2)],
        "used is true for two attempts of one call as in line 2. Leave it true for one of them.",
    ),
    (
        [row(sample=2, winner="tie", opponent="x")],
        "winner and opponent of one trial are not the same as in line 2. Give all rows of the trial the same.",
    ),
]


@pytest.mark.parametrize("between", [0, 20])
@pytest.mark.parametrize(("more", "message"), CONTRADICTIONS)
def test_rows_that_contradict_each_other_are_named_wherever_they_stand(
    connection: Connection, tmp_path: Path, small_parts: None, more: list[Any], message: str, between: int
) -> None:
    others = [row(task_id=f"u{n}") for n in range(between)]
    path = write_lines(tmp_path / "l.jsonl", [row(task_id="t0"), row(), *others, *more])
    with pytest.raises(LedgerInvalid) as refused:
        import_ledger(connection, ledger_file(path))
    assert f"l.jsonl:{between + 3}: {message}" in str(refused.value)
    assert nothing_is_left(connection)


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_opponent_without_a_row_is_named(connection: Connection, tmp_path: Path, shuffled: bool) -> None:
    rows = [row(), row(task_id="t2", winner="tie", opponent="nobody"), row(task_id="t3")]
    path = write_lines(tmp_path / "l.jsonl", [*rows, *([row(sample=2)] if shuffled else [])])
    with pytest.raises(
        LedgerInvalid, match=r"l\.jsonl:2: opponent: a strategy without a row of this task and repeat"
    ):
        import_ledger(connection, ledger_file(path))
    assert nothing_is_left(connection)


def test_a_judge_s_calls_alone_are_a_ledger(connection: Connection, tmp_path: Path) -> None:
    rows = [row(strategy=None, kind="judge", round=stage, sample=n) for stage in (1, 2) for n in (1, 2)]
    again = [row(strategy=None, kind="judge", sample=3, purpose="rerun", **{"try": 2})]
    made = import_ledger(connection, ledger_file(write_lines(tmp_path / "l.jsonl", [*rows, *again])))
    assert (made.rows, made.trials) == (5, 0)
    assert connection.execute("SELECT count(*) FROM judging").fetchone() == {"count": 2}
    assert connection.execute("SELECT count(*) FROM job").fetchone() == {"count": 5}
    again[0]["sample"] = 2
    path = write_lines(tmp_path / "l.jsonl", [*rows, *again])
    with pytest.raises(LedgerInvalid, match="two calls of judges differ in nothing but their try"):
        import_ledger(connection, ledger_file(path), run_id="second")


def test_a_pipe_is_read_once(connection: Connection, tmp_path: Path) -> None:
    def piped(rows: list[dict[str, Any]]) -> Path:
        reading, writing = os.pipe()
        os.write(writing, "".join(json.dumps(line) + "\n" for line in rows).encode())
        os.close(writing)
        return Path(f"/dev/fd/{reading}")

    held = piped([row(), row(task_id="t2"), unanswered(task_id="t3")])
    assert import_ledger(connection, ledger_file(held, "jsonl")).rows == 3
    again = piped([row(), row(task_id="t2"), row(sample=2)])
    with pytest.raises(LedgerInvalid, match=r"not in the order of an export, .* Save it as a file first\."):
        import_ledger(connection, ledger_file(again, "jsonl"), run_id="second")


def test_the_thread_does_not_run_ahead_of_postgres() -> None:
    """No more than two batches wait while one is written."""
    gate, most = threading.Event(), []
    with background.Background() as postgres:

        def ahead() -> None:
            for number in range(10):
                postgres.give(gate.wait)
                most.append(number)

        giving = threading.Thread(target=ahead)
        giving.start()
        giving.join(0.3)
        assert len(most) == 3
        gate.set()
        giving.join()
        assert len(most) == 10


def test_a_text_of_json_that_says_null_is_no_value(connection: Connection, tmp_path: Path) -> None:
    """As other programs write Parquet: `json.dumps(None)` in a column of JSON texts."""
    path = write_lines(tmp_path / "l.jsonl", [row(task_id=f"t{n}") for n in range(3)])
    import_ledger(connection, ledger_file(path))
    [table] = exported(connection, run=find_run(connection, "theirs")["id"])
    null = pl.lit("null", dtype=pl.String)
    table.with_columns(usage=null, winner=null, opponent=pl.lit(" null ")).write_parquet(
        tmp_path / "l.parquet"
    )
    import_ledger(connection, ledger_file(tmp_path / "l.parquet"), run_id="again")
    found = connection.execute("SELECT usage, winner, opponent FROM ledger WHERE run_id = 'again'").fetchall()
    assert [tuple(row.values()) for row in found] == [(None, None, None)] * 3
