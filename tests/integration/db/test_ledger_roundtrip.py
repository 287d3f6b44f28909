"""A ledger that is imported and exported again is the same ledger, field for field, in every format."""

import csv
import gzip
import itertools
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from db.connection import Connection
from db.ledger import WRITERS, export_lines
from db.ledger_files import ledger_file
from db.ledger_import import Imported, import_ledger
from db.ledger_row import COLUMNS, FIELDS
from db.runs import find_run
from paretoken.errors import InputError
from paretoken.ledger import write_ledger
from tests.ledgers import row, unanswered, write_lines

HOSTILE = [
    "",
    "'",
    "''=1",
    "=HYPERLINK(1)",
    "+1",
    "-1",
    "@x",
    "\tx",
    "\rx",
    "＝x",
    "a\r\nb\nc\rd",
    'say "no", twice',
    "a\x00b",
    "lone \ud800 and \udfff",
    "an emoji \U0001f600, the mark \uf8f0 and \uf8f0d800",
    "as text: \\u0000 \\ud800 \\\\u0000",
    "separators \u2028 \u2029 \x85 \x0b \x0c",
    "\x1b[31mred\x1b[0m",
    "null",
    "12",
]

HISTORY: list[dict[str, Any]] = [
    # throttled, then answered
    unanswered(task_id="t1", error="rate_limit", http_status=429),
    row(task_id="t1", attempt=2, purpose="retry", retry_reason="rate_limit"),
    # nobody knows what became of the first; the second one is used; the third came late and is a duplicate
    unanswered("unknown", "lost_worker", task_id="t2", finished_at=None),
    row(task_id="t2", attempt=2, purpose="retry", retry_reason="unknown_outcome"),
    row(task_id="t2", attempt=3, purpose="retry", retry_reason="unknown_outcome", used=False, response_id="r-2"),
    # two samples in round 1, one in round 2, and all of it again in a second try
    *(
        row(task_id="t3", strategy="debate", repeat=2, **{"try": again, "round": stage, "sample": sample}, **why)
        for again, why in ((1, {}), (2, {"purpose": "rerun", "retry_reason": "failed_check"}))
        for stage, sample in ((1, 1), (1, 2), (2, 1))
    ),
    # an agent's own turns: all of the used attempt are used
    *(row(task_id="t4", strategy="agent", turn=turn, response_id=f"r-{turn}") for turn in (1, 2, 3)),
    # usage that never came is unknown, not 0; a price that nobody knows likewise
    row(task_id="t5", input_tokens=None, output_tokens=None, total_tokens=None, usage=None, cost_usd=None),
    row(task_id="t6", input_tokens=0, output_tokens=0, total_tokens=0, cost_usd=0, latency_ms=0, first_byte_ms=0),
    # an error that was paid for
    unanswered(
        task_id="t7", error="truncated", http_status=200, content="half", output_tokens=20, cost_usd=1e-05,
        finish_reason="length", usage={"completion_tokens": 20},
    ),
    # three answers that were judged: a won over b and tied with c, b lost to both
    row(task_id="t8", strategy="a", winner=["a", "tie"], opponent=["b", "c"]),
    row(task_id="t8", strategy="b", winner=["a", "c"], opponent=["a", "c"]),
    row(task_id="t8", strategy="c", winner=["tie", "c"], opponent=["a", "b"]),
    # two that were compared once, and twice in another repeat
    *(row(task_id="t9", strategy=ours, winner="x y", opponent=theirs) for ours, theirs in (("x y", "z"), ("z", "x y"))),
    *(
        row(task_id="t9", strategy=ours, repeat=2, winner=["z", "x y"], opponent=[theirs, theirs])
        for ours, theirs in (("x y", "z"), ("z", "x y"))
    ),
    # the judge's own calls: two of one judging, and one of another that failed first
    *(row(task_id="t8", strategy=None, kind="judge", sample=sample, response_id=f"j-{sample}") for sample in (1, 2)),
    unanswered(task_id="t8", strategy=None, kind="judge", round=2, error="server_error", http_status=500),
    row(task_id="t8", strategy=None, kind="judge", round=2, attempt=2, purpose="retry", retry_reason="server_error"),
]  # fmt: skip

USAGES = [
    [],
    {},
    "none",
    0,
    False,
    1.5,
    [None, {"a": [1, 2.25, "x\x00\ud800"]}],
    {"key \x00 \udc00": 10**30, "small": 1e-07, "b": {"z": 1, "a": 2}},
]


numbers = itertools.count()


def imported(connection: Connection, path: Path, run_id: str | None = None) -> Imported:
    return import_ledger(connection, ledger_file(path), run_id=run_id)


def exported(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export_lines(connection, run=find_run(connection, run_id)["id"])]


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    key = ("task_id", "strategy", "repeat", "try", "round", "sample", "attempt", "turn")
    return sorted(rows, key=lambda row: [row[field] or "" for field in key])


@pytest.fixture
def everything(tmp_path: Path) -> list[dict[str, Any]]:
    """A ledger with every kind of row and text."""
    texts = [
        row(task_id=f"text {number} {text}", strategy=f"s{text}", content=text, finish_reason=text, model=f"m{text}",
            response_id=text, error=text, worker=f"w{text}", usage={f"k{text}": [text, {"in": text}]})
        for number, text in enumerate(HOSTILE)
    ]  # fmt: skip
    usages = [row(task_id=f"usage {number}", usage=usage) for number, usage in enumerate(USAGES)]
    return [*HISTORY, *texts, *usages]


FOREIGN_KEYS = """
SELECT format('SELECT count(*) FROM %s AS child WHERE child.%I IS NOT NULL '
              'AND NOT EXISTS (SELECT FROM %s AS parent WHERE %s)',
              con.conrelid::regclass, child.attname, con.confrelid::regclass,
              (SELECT string_agg(format('parent.%I = child.%I', theirs.attname, ours.attname), ' AND ')
               FROM unnest(con.conkey, con.confkey) AS pair (ours, theirs)
               JOIN pg_attribute AS ours ON ours.attrelid = con.conrelid AND ours.attnum = pair.ours
               JOIN pg_attribute AS theirs ON theirs.attrelid = con.confrelid AND theirs.attnum = pair.theirs)) AS query
FROM pg_constraint AS con
JOIN pg_attribute AS child ON child.attrelid = con.conrelid AND child.attnum = con.conkey[1]
WHERE con.contype = 'f'"""


def test_every_key_of_an_import_refers_to_a_row_though_they_are_not_checked(
    connection: Connection, tmp_path: Path, everything: list[dict[str, Any]]
) -> None:
    imported(connection, write_lines(tmp_path / "l.jsonl", everything))
    [role] = connection.execute("SELECT current_setting('session_replication_role') AS role").fetchall()
    assert role["role"] == "origin"
    queries = [row["query"] for row in connection.execute(FOREIGN_KEYS).fetchall()]
    assert len(queries) > 15
    for query in queries:
        [orphans] = connection.execute(query).fetchall()
        assert orphans["count"] == 0, query


@pytest.mark.parametrize("name", ["l.jsonl", "l.jsonl.gz", "l.csv", "l.csv.gz", "l.parquet"])
def test_what_goes_in_comes_out_again(
    connection: Connection, tmp_path: Path, everything: list[dict[str, Any]], name: str
) -> None:
    made = imported(connection, write_lines(tmp_path / "given.jsonl", everything))
    assert (made.run_id, made.rows) == ("theirs", len(everything))
    assert by_key(exported(connection, "theirs")) == by_key(everything)
    assert write_ledger(connection, "theirs", tmp_path / name) == len(everything)
    imported(connection, tmp_path / name, "again")
    again = [line | {"run_id": "theirs"} for line in exported(connection, "again")]
    assert again == exported(connection, "theirs")


def test_the_order_is_by_code_point_whatever_the_database_sorts_by(
    connection: Connection, tmp_path: Path
) -> None:
    names = ["b", "B", "a", "ä", "a b", "a-b", "ab", "_"]
    imported(connection, write_lines(tmp_path / "l.jsonl", [row(task_id=name) for name in names]))
    assert [line["task_id"] for line in exported(connection, "theirs")] == sorted(names)


@given(texts=st.lists(st.text(), min_size=1, max_size=40))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_survives(connection: Connection, tmp_path: Path, texts: list[str]) -> None:
    rows = [
        row(task_id=f"t{number:02d}", content=text, usage={"k": text}) for number, text in enumerate(texts)
    ]
    name = f"run{next(numbers)}"
    imported(connection, write_lines(tmp_path / "l.jsonl", rows), name)
    for format_ in ("csv", "parquet"):
        write_ledger(connection, name, tmp_path / f"l.{format_}")
        imported(connection, tmp_path / f"l.{format_}", f"{name}.{format_}")
        found = exported(connection, f"{name}.{format_}")
        assert [line["content"] for line in found] == texts
        assert [line["usage"] for line in found] == [{"k": text} for text in texts]


def test_no_cell_of_the_csv_is_a_formula_and_columns_are_the_documented_ones(
    connection: Connection, tmp_path: Path, everything: list[dict[str, Any]]
) -> None:
    imported(connection, write_lines(tmp_path / "given.jsonl", everything))
    write_ledger(connection, "theirs", tmp_path / "l.csv")
    with (tmp_path / "l.csv").open(newline="", encoding="utf-8") as file:
        cells = list(csv.reader(file))
    assert cells[0] == list(FIELDS)
    assert len(cells) == len(everything) + 1
    assert not [cell for line in cells for cell in line if cell[:1] in tuple("=+-@\t\r\n＝＋－＠")]


def test_parquet_has_the_types_of_the_fields(connection: Connection, tmp_path: Path) -> None:
    imported(connection, write_lines(tmp_path / "given.jsonl", HISTORY))
    write_ledger(connection, "theirs", tmp_path / "l.parquet")
    frame = pl.read_parquet(tmp_path / "l.parquet")
    assert dict(frame.schema) == dict(COLUMNS)
    assert frame["total_tokens"].null_count() == sum(line["total_tokens"] is None for line in HISTORY)
    assert frame.filter(task_id="t6")["total_tokens"].to_list() == [0]


def test_the_same_ledger_gives_the_same_packed_file(connection: Connection, tmp_path: Path) -> None:
    imported(connection, write_lines(tmp_path / "given.jsonl", HISTORY))
    for name in ("a.jsonl.gz", "b.jsonl.gz", "plain.jsonl"):
        write_ledger(connection, "theirs", tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()) == (tmp_path / "plain.jsonl").read_bytes()


@pytest.mark.parametrize("format_", WRITERS)
def test_a_run_without_calls_is_an_empty_file_with_its_columns(
    connection: Connection, tmp_path: Path, format_: str
) -> None:
    connection.execute(
        "INSERT INTO run (run_id, source_platform, experiment, experiment_hash, prompts_hash, key_fingerprint, "
        "simulated) VALUES ('none', 'local', '{}', '', '', '', false)"
    )
    path = tmp_path / f"l.{format_}"
    assert write_ledger(connection, "none", path) == 0
    columns = {"jsonl": [], "csv": list(FIELDS), "parquet": list(FIELDS)}[format_]
    read = {"jsonl": lambda p: p.read_text().splitlines(), "csv": lambda p: pl.read_csv(p).columns,
            "parquet": lambda p: pl.read_parquet(p).columns}[format_]  # fmt: skip
    assert read(path) == columns


def test_a_ledger_takes_the_place_of_files_alone(connection: Connection, tmp_path: Path) -> None:
    """Not of a device node, here a pipe; a link stays, and what it leads to is written."""
    imported(connection, write_lines(tmp_path / "given.jsonl", [row()]))
    os.mkfifo(tmp_path / "device.jsonl")
    with pytest.raises(InputError, match=r"device\.jsonl: cannot be written \(.* no regular file\)"):
        write_ledger(connection, "theirs", tmp_path / "device.jsonl")
    assert (tmp_path / "device.jsonl").is_fifo()
    (tmp_path / "there").mkdir()
    (tmp_path / "link.jsonl").symlink_to(Path("there") / "l.jsonl")
    assert write_ledger(connection, "theirs", tmp_path / "link.jsonl") == 1
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "there" / "l.jsonl").read_bytes().count(b"\n") == 1
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["l.jsonl"]


def test_lines_of_other_programs_are_read(connection: Connection, tmp_path: Path) -> None:
    """Byte-order mark, CRLF, blank lines, blanks between tokens, fields in another order, unknown ones left out."""
    needed = ["run_id", "source_platform", "task_id", "strategy", "repeat", "round", "sample", "attempt", "model",
              "status", "try", "turn", "kind", "purpose", "used", "worker", "started_at"]  # fmt: skip
    short = {field: row()[field] for field in reversed(needed)} | {"started_at": "2026-01-02T04:04:05+01:00"}
    text = "\ufeff" + json.dumps(short, indent=1).replace("\n", "\r") + "\r\n\r\n"
    (tmp_path / "l.jsonl").write_bytes(text.encode() + json.dumps(row(task_id="t2")).encode())
    assert imported(connection, tmp_path / "l.jsonl").rows == 2
    first, second = exported(connection, "theirs")
    unknown = dict.fromkeys(set(FIELDS) - set(needed))
    assert first == {**short, **unknown, "started_at": "2026-01-02T03:04:05+00:00"}
    assert second == row(task_id="t2")
