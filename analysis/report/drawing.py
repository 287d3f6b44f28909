"""What all charts share: axes, scales, labels, and numbers as JSON takes them.

Colours have a contrast of at least 3:1 on white and on near-black; what a colour says, a shape or a word says too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import altair as alt
import polars as pl

from analysis.report.columns import COLUMNS
from analysis.safetext import terminal_text
from analysis.study import Study

Spec: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

BLUE, GREEN, ORANGE, RED, GREY, VIOLET = "#2f7fd1", "#2e8b57", "#c96a04", "#d1495b", "#7d8590", "#8a63d2"
TEXT = "currentColor"
"""The page's own text colour, so that one drawing serves light and dark; black in a file."""

MOST_STRATEGIES = 30
"""More are not told apart in a chart; the tables hold all of them."""
MOST_LETTERS = 80
"""Of a name in a chart."""
MOST_SPOKEN = 12
"""Rows that a chart's description reads out; the table beside it has all."""
_LETTER_PX, _WIDTHS_PX = 7.5, (280, 600, 1000)
"""Width of a letter, and of charts on a phone, a tablet and a desk."""
_LINE = 0.055
"""Height of a line as a share of the chart's."""
_FONT = "system-ui, 'Liberation Sans', Arial, sans-serif"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One drawing, with the words that stand beside it."""

    name: str
    """Of its files: `charts/NAME.svg`."""
    title: str
    alt: str
    """What it shows, for those who do not see it."""
    table: str
    """The table that it is drawn from."""
    spec: Spec
    left_out: int = 0
    """Strategies that are in the table and not in the drawing."""

    @property
    def zoomable(self) -> bool:
        """Whether its axes can be moved."""
        return "params" in self.spec


def rows_of(table: pl.DataFrame) -> list[Row]:
    """The rows with finite numbers only, and without characters that would steer a reader's screen."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.iter_rows(named=True)]


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not isinstance(value, str):
        return value
    text = " ".join(terminal_text(value[:MOST_LETTERS]).split())
    return text if len(value) <= MOST_LETTERS else text + "…"


def data(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=list(rows))


def number_axis(channel: type[Any], field: str, title: str, *, form: str = "", scale: Any = None) -> Any:
    """A quantitative `alt.X` or `alt.Y`, with few enough ticks for a phone."""
    axis = alt.Axis(format=form or alt.Undefined, labelOverlap=True, tickCount=6)
    if form == ".0%":
        # The margin around the points may reach beyond what a share can be.
        axis["labelExpr"] = "datum.value < 0 || datum.value > 1 ? '' : datum.label"
    return channel(
        f"{field}:Q", title=title, axis=axis, scale=scale or alt.Scale(zero=False, nice=True, padding=24)
    )


def tips(columns: Sequence[str]) -> list[alt.Tooltip]:
    """What hovering shows: the columns of the table under their headings."""
    shown = []
    for name in columns:
        column = COLUMNS[name]
        form = ",.1%" if column.form == "%1" else column.form
        kind = "Q" if form else "N"
        shown.append(alt.Tooltip(f"{name}:{kind}", title=column.title, format=form or alt.Undefined))
    return shown


def colours(named: Mapping[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(named), range=list(named.values()))


def legend() -> alt.Legend:
    """Under the chart, so that a phone keeps its width."""
    return alt.Legend(orient="bottom", direction="horizontal", columns=2, labelLimit=220)


def zoom() -> alt.Parameter:
    """Drag to move, Alt and wheel to zoom, double click to go back: the plain wheel still scrolls the page."""
    return alt.selection_interval(
        bind="scales",
        zoom="wheel![event.altKey]",
        translate="[pointerdown[event.pointerType === 'mouse'], window:pointerup] > window:pointermove!",
    )


def cheapest_first(study: Study) -> list[str]:
    return study.tables["elo_per_token"]["strategy"].to_list()


def strategies_beside(names: Sequence[str]) -> alt.Y:
    return alt.Y("strategy:N", title=None, sort=list(names), axis=alt.Axis(labelLimit=130))


def strategies_below(names: Sequence[str], field: str = "strategy", title: str = "Strategy") -> alt.X:
    axis = alt.Axis(labelAngle=-40, labelLimit=110, labelOverlap=False)
    return alt.X(f"{field}:N", title=title, sort=list(names), axis=axis)


def where(test: str, field: str) -> Any:
    """The text only where the test holds: a filter that leaves nothing would make Vega complain of an empty axis."""
    return alt.condition(test, f"{field}:N", alt.value(""))


def named_points(base: alt.Chart, x: Any, y: Any) -> list[alt.Chart]:
    """Names beside their points, each once the chart is wide enough for it (see `placed`)."""
    layers = []
    # The line comes from below on the left and goes up to the right: there is room below right and above left.
    sides: tuple[tuple[Literal["left", "right"], int], ...] = (("left", 1), ("right", -1))
    for side, sign in sides:
        text = base.mark_text(align=side, dx=9 * sign, dy=13 * sign, color=TEXT, fontSize=13, limit=180)
        shown = where(f"datum.side === '{side}' && datum.least_px <= width", "label")
        layers.append(text.encode(x=x, y=y, text=shown))
    return layers


def placed(rows: Sequence[Row], x: str, y: str) -> list[Row]:
    """The rows with where their `label` goes: the `side` of it that is at the point, and the least width of the drawing
    in pixels at which it hides no other label (greatest where there is none)."""
    if not rows:
        return []
    spans = {name: _span([row[name] for row in rows]) for name in (x, y)}
    points = [[(row[name] - spans[name][0]) / spans[name][1] for name in (x, y)] for row in rows]
    room = [_free(rows, points, 1 / width) for width in _WIDTHS_PX]
    return [
        row
        | {
            "side": "left" if points[n][0] < 0.5 else "right",
            "least_px": next((px for px, free in zip(_WIDTHS_PX, room, strict=True) if free[n]), 1e6) * 0.8,
        }
        for n, row in enumerate(rows)
    ]


def _free(rows: Sequence[Row], points: Sequence[Sequence[float]], pixel: float) -> list[bool]:
    """Which labels are free of all that were placed before, where a pixel is so much of the width."""
    taken: list[tuple[float, float, float]] = []
    found = []
    for row, (across, up) in zip(rows, points, strict=True):
        width = pixel * (_LETTER_PX * min(len(row["label"]), 26) + 9)
        start, level = (across, up - _LINE) if across < 0.5 else (across - width, up + _LINE)
        free = all(
            abs(level - at) > _LINE or start > end or start + width < begin for begin, end, at in taken
        )
        if free:
            taken.append((start, start + width, level))
        found.append(free)
    return found


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Least value, and distance to the greatest (1 where there is none)."""
    return min(values), (max(values) - min(values)) or 1.0


def heat_map(
    rows: Sequence[Row], *, x: alt.X, y: alt.Y, value: str, columns: Sequence[str], across: int, down: int
) -> Spec:
    """Cells coloured by a share, with the share written in where there is room."""
    base = alt.Chart(data(rows)).encode(x=x, y=y, tooltip=tips(columns))
    scale = alt.Scale(domain=[0, 0.5, 1], range=["#f3e3c3", "#8fb3d9", "#123e70"], interpolate="rgb")
    shown = alt.Legend(orient="bottom", format=".0%", gradientLength=180)
    cells = base.mark_rect().encode(
        color=alt.Color(f"{value}:Q", title=COLUMNS[value].title, scale=scale, legend=shown)
    )
    if across > 12:
        return finished(cells, height=max(60, 24 * down))
    ink = alt.condition(f"datum.{value} > 0.72", alt.value("white"), alt.value("#14171a"))
    written = base.mark_text(fontSize=13 if across <= 7 else 11).encode(
        text=alt.Text(f"{value}:Q", format=".0%"), color=ink
    )
    return finished(alt.layer(cells, written), height=max(60, 34 * down))


def spoken(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, name: str = "strategy") -> str:
    """The rows as one sentence each, for those who do not see the chart."""
    said = [
        f"{COLUMNS[name].text(row[name])}: "
        + ", ".join(f"{COLUMNS[c].title} {COLUMNS[c].text(row[c])}" for c in columns)
        for row in rows[:MOST_SPOKEN]
    ]
    more = len(rows) - MOST_SPOKEN
    return ". ".join(said) + (f". And {more} more, in the table." if more > 0 else ".")


def finished(drawing: Any, *, height: int) -> Spec:
    """The specification: as wide as where it stands, in the look of the page."""
    chart = drawing.properties(
        width="container", height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    )
    ink = {
        "labelColor": TEXT,
        "titleColor": TEXT,
        "labelFontSize": 13,
        "titleFontSize": 14,
        "titleFontWeight": "normal",
    }
    lines = {
        "gridColor": TEXT,
        "gridOpacity": 0.12,
        "domainColor": TEXT,
        "tickColor": TEXT,
        "titlePadding": 8,
    }
    config = {
        "background": "transparent",
        "font": _FONT,
        "view": {"stroke": None},
        "axis": ink | lines,
        "legend": ink | {"symbolSize": 110},
    }
    return dict(chart.to_dict(validate=False)) | {"config": config}
