"""The charts of docs/performance.md."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import charts

GROWTH = {
    "tables": {
        "Worker processes: 20 calls": [{"worker_processes": n, "calls_per_s": 100.0 * n} for n in (1, 2)],
        "Size of the run: 20 calls": [
            {"jobs_planned": 10**power, "calls_per_s": 300.0 + power} for power in (3, 6)
        ],
    }
}


def test_growth_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, folder = tmp_path / "results.json", tmp_path / "charts"
    results.write_text(json.dumps({"growth": GROWTH}))
    monkeypatch.setattr("sys.argv", ["charts", str(results), str(folder)])
    charts.main()
    workers, size = folder / "growth-workers.svg", folder / "growth-size.svg"
    assert {"Worker processes", "20 calls", "worker processes", "1", "2", "200"} <= words(workers)
    assert {"Size of the run", "20 calls", "jobs planned", "1,000", "1,000,000", "300"} <= words(size)


def words(file: Path) -> set[str]:
    return {element.text or "" for element in ElementTree.parse(file).iter() if element.tag.endswith("text")}
