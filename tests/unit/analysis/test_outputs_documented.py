"""`docs/outputs.md` and the files agree, column by column."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from analysis.judges import QUALITY
from analysis.options import Options
from analysis.report import Wanted, write_report

from .conftest import trials

DOCS = Path(__file__).parents[3] / "docs" / "outputs.md"


def documented() -> dict[str, list[str]]:
    sections = re.split(r"^## ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    first_cell = re.compile(r"^\| (\w+) \|", flags=re.MULTILINE)
    # The first row of each table is its header.
    return {section.splitlines()[0]: first_cell.findall(section)[1:] for section in sections}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        (f"t{t}", s, r, (t * 5 + r * 7 + n * 4) % 11 < 5 + n)
        for t in range(20)
        for n, s in enumerate("ab")
        for r in range(3)
    ]
    out = tmp_path_factory.mktemp("report")
    no_calls = pl.DataFrame(schema={"task_id": pl.String, "strategy": pl.String})
    judges = pl.DataFrame([("j", 20, 40, 20, 3, 0, 0, 0.1, 0.9)], schema=QUALITY, orient="row")
    options = Options(hierarchical=True)
    write_report(
        out, outcomes=trials(rows), calls=no_calls, judges=judges, options=options, wanted=Wanted(page=False)
    )
    return out


def test_every_file_is_documented(written: Path) -> None:
    # The page and its charts take seconds; tests/acceptance/test_report_page.py writes them.
    assert {path.name for path in written.iterdir()} | {"report.html", "charts"} == set(documented())


def test_every_column_is_documented(written: Path) -> None:
    found = {}
    for path in written.iterdir():
        if path.suffix == ".csv":
            found[path.name] = path.read_text().splitlines()[0].split(",")
        elif path.suffix == ".json":
            content = json.loads(path.read_text())
            found[path.name] = list(content if isinstance(content, dict) else content[0])
    assert found == {name: columns for name, columns in documented().items() if name in found}
