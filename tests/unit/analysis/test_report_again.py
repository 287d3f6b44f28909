"""A second report into the same folder: what the first wrote and the second does not is gone, and nothing else."""

import json
from pathlib import Path

import pytest

from analysis.report.written import NAME, renew


def put(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(path.name)
    return paths


def there(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_files_of_a_former_report_go(tmp_path: Path) -> None:
    renew(tmp_path, put(tmp_path, "pareto.csv", "judges.csv", "report.html", "charts/a.svg", "charts/a.png"))
    put(tmp_path, "mine.csv", "outcomes.parquet", "charts/mine.svg")
    renew(tmp_path, put(tmp_path, "pareto.csv", "charts/a.svg"))
    assert there(tmp_path) == {
        *("pareto.csv", "charts/a.svg", NAME),
        *("mine.csv", "outcomes.parquet", "charts/mine.svg"),
    }
    (tmp_path / "charts/mine.svg").unlink()
    renew(tmp_path, put(tmp_path, "pareto.csv"))
    assert json.loads((tmp_path / NAME).read_text()) == {"files": ["pareto.csv", NAME]}
    assert not (tmp_path / "charts").exists()


@pytest.mark.parametrize(
    "listed",
    [
        '{"files": ["../outside.csv", "/etc/x.csv", "notes.txt", "other/a.csv", "folder.csv"]}',
        '{"files": ["charts/../../outside.csv", 3]}',
        '{"files": 3}',
        "[]",
        "no JSON",
        "\\ud800",
    ],
)
def test_a_list_that_was_tampered_with_removes_nothing_else(tmp_path: Path, listed: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    put(tmp_path, "outside.csv")
    put(out, "notes.txt", "other/a.csv")
    (out / "folder.csv").mkdir()
    (out / NAME).write_text(listed)
    renew(out, put(out, "pareto.csv"))
    assert there(tmp_path) == {
        "outside.csv",
        *(f"out/{name}" for name in ("notes.txt", "other/a.csv", "pareto.csv", NAME)),
    }


def test_a_folder_of_charts_that_leads_elsewhere_is_left_alone(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    put(elsewhere.parent, "elsewhere/a.svg")
    (out / "charts").symlink_to(elsewhere)
    (out / NAME).write_text('{"files": ["charts/a.svg"]}')
    renew(out, put(out, "pareto.csv"))
    assert (elsewhere / "a.svg").is_file()
