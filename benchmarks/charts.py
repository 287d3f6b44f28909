"""The charts of docs/performance.md, from the results that `benchmarks.all` has written.

python -m benchmarks.charts results.json docs/charts
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from benchmarks.results import Row

_PACE = {"field": "calls_per_s", "type": "quantitative", "title": "calls per second", "scale": {"zero": True}}
_PLANNED = {
    "field": "jobs_planned",
    "type": "quantitative",
    "title": "jobs planned",
    "scale": {"type": "log"},
    "axis": {"format": ",", "values": [10**power for power in range(2, 7)]},
}
_PROCESSES = {
    "field": "worker_processes",
    "type": "ordinal",
    "title": "worker processes",
    "axis": {"labelAngle": 0},
}


def draw(growth: Mapping[str, Any], folder: Path) -> list[Path]:
    """`growth-workers.svg` and `growth-size.svg` from what `benchmarks.growth` found; gives what was written."""
    by_workers, by_size = growth["tables"].items()
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write(folder / "growth-workers.svg", by_workers, mark={"type": "bar", "size": 40}, x=_PROCESSES),
        _write(folder / "growth-size.svg", by_size, mark={"type": "line", "point": True}, x=_PLANNED),
    ]


def _write(file: Path, table: tuple[str, Sequence[Row]], *, mark: Row, x: Row) -> Path:
    title, rows = table
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": title.partition(": ")[0], "subtitle": title.partition(": ")[2]},
        "background": "white",
        "width": 420,
        "height": 220,
        "data": {"values": list(rows)},
        "mark": mark,
        "encoding": {"x": x, "y": _PACE},
    }
    file.write_text(vl_convert.vegalite_to_svg(spec))
    return file


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="what `benchmarks.all --out` has written")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    for file in draw(json.loads(options.results.read_text())["growth"], options.folder):
        print(file)


if __name__ == "__main__":
    main()
