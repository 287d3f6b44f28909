"""The quick checks of ledger rows accept nothing that `LedgerRow` refuses, and read the same of what both accept."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import pytest
from annotated_types import Gt
from hypothesis import given, settings
from hypothesis import strategies as st

from db.errors import LedgerInvalid
from db.ledger_columns import plainly_right
from db.ledger_files import ledger_file, table_lines
from db.ledger_frames import LINE, frames, plain_frame
from db.ledger_reader import quick_type, read_row
from db.ledger_row import COLUMNS, FIELDS, LedgerRow, check_row
from db.text import json_to_database
from tests.ledgers import row, unanswered

FILE = ledger_file(Path("l.parquet"))
JUDGED = row(winner=["baseline", "tie"], opponent=["a", "b"])
JUDGE = row(strategy=None, kind="judge")

# JSON texts, some of which are right in some field.
VALUES = [
    "null", "true", "false", "0", "1", "-1", "-0", "1.0", "1e2", "0.5", "-0.1", "1e999", "-1e999", "NaN", "Infinity",
    "01", "1.", "32767", "32768", "2147483647", "2147483648", "99", "999", "1000", "1000000000", "1000000001",
    "1" * 400, "1" * 5000, '""', '"x"', '"tie"', '"baseline"', '"null"', '"ok"', '"judge"', '"rerun"',
    '"\\u0000"', '"\\ud800"',
    '"\\ud83d\\ude00"', '"\uf8f0"', '"a\\nb"', '"\n"',
    '"\\x"', f'"{"x" * 100}"', f'"{"x" * 101}"', f'"{"ä" * 200}"', f'"{"😀" * 200}"', f'"{"x" * 201}"',
    "[]", "{}", '["baseline"]', '["baseline","a"]', '["a","a"]', '["baseline",""]', '["tie",1]', "[1,]",
    '{"a":1,"a":2}',
    '{"a":[1e309]}', '{"a":{"b":[NaN]}}', '{"a":1e308}', "[" * 99 + "]" * 99, "[" * 150 + "]" * 150,
    "[" * 300 + "]" * 300,
    '"2026-01-02T03:04:05Z"', '"2026-01-02 03:04:05.1234567+01:00"', '"2026-01-02T03:04:60Z"', '"2026-02-29T00:00:00Z"',
    '"2026-01-02T03:04:05"', '"2026-01-02"', '"1969-12-31T23:59:59.9999999Z"', '"1970-01-01T00:00:00Z"',
    '"9998-12-31T00:00:00Z"', '"9998-12-31T00:00:01Z"', '"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:00:00-14:00"',
    '"2026-01-02_03:04Z"', '"1700000000"', "1700000000",
]  # fmt: skip


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A ledger row as JSON with some fields replaced, left out, given twice or added, and perhaps a byte changed."""
    fields = {
        name: json.dumps(value) for name, value in draw(st.sampled_from([row(), JUDGED, JUDGE])).items()
    }
    names = st.sampled_from([*FIELDS, "extra"])
    fields |= draw(st.dictionaries(names, st.sampled_from(VALUES), max_size=3))
    for name in draw(st.sets(st.sampled_from(FIELDS), max_size=1)):
        del fields[name]
    parts = [f'"{name}":{value}' for name, value in fields.items()]
    parts += [
        f'"{name}":{value}'
        for name, value in draw(st.lists(st.tuples(names, st.sampled_from(VALUES)), max_size=1))
    ]
    line = json_to_database(f"{{{','.join(parts)}}}".encode())
    at, byte = (
        draw(st.integers(0, len(line))),
        draw(
            st.sampled_from([b"", b"", b"", b"\xff", b"\xed\xa0\x80", b"\\", b'"', b"\0", b"}", b"\r", b" "])
        ),
    )
    return line[:at] + byte + line[at:]  # fmt: skip


def accepted(line: bytes) -> LedgerRow | None:
    try:
        return check_row(line, str, 1)
    except LedgerInvalid:
        return None


def same(ours: Any, law: LedgerRow, name: str) -> bool:
    said = getattr(law, name)
    if isinstance(said, datetime):
        # pydantic cuts what is finer than microseconds, msgspec and Postgres round it.
        return abs(ours - said) <= timedelta(microseconds=1)
    return bool(ours == said)


@given(lines())
@settings(max_examples=300, deadline=None)
def test_a_row_that_is_read_quickly_is_one(line: bytes) -> None:
    law = accepted(line)
    frame = plain_frame(7, [line])
    if frame is not None:
        assert law is not None
        found = frame.row(0, named=True)
        assert found.pop(LINE) == 7
        for field, name in zip(FIELDS, LedgerRow.model_fields, strict=True):
            if field in ("usage", "winner", "opponent"):
                assert (found[field] and json.loads(found[field])) == (
                    getattr(law, name) or None
                ) or field == "usage"
            else:
                assert same(found[field], law, name), field


@given(lines())
@settings(max_examples=300, deadline=None)
def test_a_row_is_read_or_refused_with_the_words_of_the_model(line: bytes) -> None:
    law = accepted(line)
    if law is None:
        with pytest.raises(LedgerInvalid) as ours:
            read_row(line, str, 1)
        with pytest.raises(LedgerInvalid) as theirs:
            check_row(line, str, 1)
        assert str(ours.value) == str(theirs.value)
        return
    found = read_row(line, str, 1)
    for name in LedgerRow.model_fields:
        if name != "usage":
            assert same(getattr(found, name), law, name), name
    if law.usage is not None:
        assert json.loads(found.usage) == law.usage


USUAL = [
    row(), JUDGED, JUDGE, row(winner="tie", opponent="a"), unanswered(), unanswered("unknown", finished_at=None),
    row(content="line\nline"), row(content="ä 😀"), row(usage=[1, {"a": None}]), row(usage=None), row(cost_usd=0),
    row(started_at="2026-01-02 05:04:05.5+02:00"),
]  # fmt: skip


@pytest.mark.parametrize("given_row", USUAL)
def test_what_is_usual_is_read_quickly(given_row: dict[str, Any]) -> None:
    frame = plain_frame(1, [json.dumps(given_row).encode() + b"\r\n"])
    assert frame is not None
    assert frame.columns == [*COLUMNS, LINE]


def test_digits_of_usage_stay() -> None:
    usage = '{"a": 1.50, "b": 100000000000000000000000000001, "c": 1E-7}'
    line = json.dumps(row(usage="#")).replace('"#"', usage).encode()
    frame = plain_frame(1, [line])
    assert frame is not None
    assert frame["usage"].to_list() == [usage] == [read_row(line, str, 1).usage]


def table(**changes: Any) -> pl.DataFrame:
    """A part of a Parquet file with one row."""
    line = json.dumps(row()).encode()
    [frame] = frames([(1, line, read_row(line, str, 1))])
    cells = {name: pl.lit(value, dtype=COLUMNS[name]) for name, value in changes.items()}
    return frame.drop(LINE).with_columns(**cells)


WHEN = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, tzinfo=UTC),
    datetime(9998, 12, 31, 1, tzinfo=UTC),
]
TEXTS = [
    json.loads(value) for value in VALUES if value[0] == value[-1] == '"' and value not in ('"\n"', '"\\x"')
]
JSON_TEXTS = [
    "[1e999]",
    '{"a": 1}',
    '["a", "tie"]',
    '["baseline", "a"]',
    "{",
    "[" * 300,
    '"\\u0000"',
    '"baseline"',
    '"a"',
]
CELLS: dict[Any, list[Any]] = {
    pl.Int64: [None, 0, 1, -1, 99, 100, 999, 1000, 2**15 - 1, 2**15, 2**31 - 1, 2**31],
    pl.Float64: [None, 0.0, -0.1, 1e9, 1e9 + 1, float("nan"), float("inf"), 1e-300],
    pl.Boolean: [None, True, False],
    pl.Datetime("us", "UTC"): [None, *WHEN],
    pl.String: [None, "error", *JSON_TEXTS, *(text for text in TEXTS if text != "\ud800")],
}


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_table_that_is_plainly_right_is_a_ledger(data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from(list(COLUMNS)), max_size=3))
    part = table(**{name: data.draw(st.sampled_from(CELLS[COLUMNS[name]])) for name in sorted(names)})
    if plainly_right(part):
        [(_, line)] = table_lines(FILE, 1, part)
        law = check_row(json_to_database(line), str, 1)
        assert law.content == part["content"][0]
        assert law.cost_usd == part["cost_usd"][0]


def test_other_columns_or_types_are_not_plainly_right() -> None:
    assert plainly_right(table())
    assert not plainly_right(table().drop("worker"))
    assert not plainly_right(table().with_columns(extra=1))
    assert not plainly_right(table().with_columns(pl.col("attempt").cast(pl.Int32)))
    assert not plainly_right(table(content="mark \uf8f00000"))
    assert not plainly_right(table(content="nul \0"))


def test_a_limit_that_no_quick_check_knows_is_noticed() -> None:
    with pytest.raises(TypeError, match="no quick check knows"):
        quick_type(Annotated[int, Gt(1)])
