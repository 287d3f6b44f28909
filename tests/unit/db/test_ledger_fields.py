"""The ledger's fields are the documented ones: in the page, in the row's model and in the analysis."""

import re
from pathlib import Path

import polars as pl
import pytest

from analysis.frames import CALLS
from db.ledger_row import COLUMNS, FIELDS, LedgerRow

PAGE = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|", PAGE.split("\n## ")[1], re.MULTILINE)


def test_the_page_lists_the_fields_in_their_order() -> None:
    assert [name for name, _, _ in ROWS] == list(FIELDS)


def test_the_page_says_which_fields_are_never_empty() -> None:
    needed = {field.alias or name for name, field in LedgerRow.model_fields.items() if field.is_required()}
    assert {name for name, _, empty in ROWS if empty == "never"} == needed


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind, _ in ROWS])
def test_the_page_says_the_types(name: str, kind: str) -> None:
    types = {
        "integer": pl.Int64,
        "number": pl.Float64,
        "time": pl.Datetime("us", "UTC"),
        "true, false": pl.Boolean,
    }
    assert COLUMNS[name] == types.get(kind, pl.String)


def test_the_analysis_knows_the_same_fields() -> None:
    assert set(CALLS) == set(FIELDS) - {"winner", "opponent"}
