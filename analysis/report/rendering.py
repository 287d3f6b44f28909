"""Charts as files, and the code that draws them in a browser; both without a browser and without a network."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import vl_convert

from analysis.report.drawing import TEXT, Chart, Spec
from analysis.report.files import write_bytes, write_chunks

WIDTH = 760
_INK = "#14171a"


def write_drawings(folder: Path, charts: Iterable[Chart]) -> tuple[Path, ...]:
    """Write each chart as `NAME.svg` and `NAME.png`, dark on white."""
    written = []
    for chart in charts:
        spec = json.dumps(_on_paper(chart.spec)).replace(TEXT, _INK)
        drawing = vl_convert.vegalite_to_svg(spec)
        written.append(write_chunks(folder / f"{chart.name}.svg", [drawing]))
        written.append(write_bytes(folder / f"{chart.name}.png", vl_convert.svg_to_png(drawing, scale=2)))
    return tuple(written)


@cache
def browser_code() -> str:
    """Vega, Vega-Lite and vega-embed as one script, about 0.9 MB; made once a process, since that takes seconds."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _on_paper(spec: Spec) -> Spec:
    return spec | {"width": WIDTH, "padding": 12, "config": spec["config"] | {"background": "white"}}
