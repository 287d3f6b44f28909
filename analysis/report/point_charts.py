"""Charts with a point for each strategy: what it costs, and what it achieves."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from analysis.report.drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    TEXT,
    Chart,
    Row,
    colours,
    data,
    finished,
    legend,
    named_points,
    number_axis,
    placed,
    rows_of,
    spoken,
    tips,
    where,
    zoom,
)
from analysis.study import Study

VERDICTS = {
    "start": (GREY, "circle"),
    "worth it": (GREEN, "triangle-up"),
    "diminishing": (ORANGE, "diamond"),
    "not worth it": (RED, "triangle-down"),
    "cannot tell yet": (BLUE, "square"),
}
STANDINGS = {"on the frontier": (BLUE, "square"), "beaten by another": (GREY, "circle")}
_HEIGHT = 360


def elo_tokens(study: Study) -> Chart | None:
    """Elo against tokens, with intervals and the slope of each step."""
    limits = study.tables["elo_table"].select("strategy", "elo_low", "elo_high")
    known = (
        study.tables["elo_per_token"]
        .filter(pl.col("avg_total_tokens").is_not_null() & pl.col("elo").is_not_null())
        .join(limits, on="strategy", how="left", maintain_order="left")
        .with_columns(verdict=pl.col("assessment").fill_null("start"))
    )
    if known.is_empty():
        return None
    rows = placed([row | {"label": row["strategy"]} for row in rows_of(known)], "avg_total_tokens", "elo")
    x = number_axis(alt.X, "avg_total_tokens", "Tokens per trial (average)", form=",d")
    y = number_axis(alt.Y, "elo", "Elo (points)")
    base = alt.Chart(data(rows))
    line = base.mark_line(color=GREY, strokeWidth=1.5).encode(x=x, y=y).add_params(zoom())
    columns = (
        "strategy",
        "elo",
        "elo_low",
        "elo_high",
        "avg_total_tokens",
        "marginal_elo_per_1k",
        "assessment",
    )
    points = base.mark_point(filled=True, size=150, opacity=1).encode(
        x=x, y=y, tooltip=tips(columns), **_told_apart(rows, "verdict", VERDICTS, "The step to it is")
    )
    layers = [line, *_whiskers(rows, x), points, *named_points(base, x, y), *_slopes(rows)]
    return Chart(
        name="elo_tokens",
        title="Elo against tokens",
        alt=f"Elo of {known.height} strategies against their average tokens per trial, with intervals. "
        + spoken(rows, ("avg_total_tokens", "elo")),
        table="elo_per_token",
        spec=finished(alt.layer(*layers), height=_HEIGHT),
    )


def _whiskers(rows: Sequence[Row], x: Any) -> list[alt.Chart]:
    """Intervals with two sides."""
    known = [row for row in rows if row["elo_low"] is not None and row["elo_high"] is not None]
    rules = alt.Chart(data(known)).mark_rule(color=GREY, strokeWidth=2)
    return [rules.encode(x=x, y="elo_low:Q", y2="elo_high:Q")] if known else []


def _slopes(rows: Sequence[Row]) -> list[alt.Chart]:
    """Elo per extra 1,000 tokens, written at the middle of each step that is wide enough to be seen."""
    reach = rows[-1]["avg_total_tokens"] - rows[0]["avg_total_tokens"]
    steps = [
        {
            # Half of the step has to hold the name of its first point, and half of this label.
            "needs_px": 2 * (7.5 * min(len(before["label"]), 26) + 42),
            "room": (after["avg_total_tokens"] - before["avg_total_tokens"]) / reach,
            "x": (before["avg_total_tokens"] + after["avg_total_tokens"]) / 2,
            "y": (before["elo"] + after["elo"]) / 2,
            "label": f"{after['marginal_elo_per_1k']:+,.1f} / 1K",
        }
        for before, after in pairwise(rows)
        if after["marginal_elo_per_1k"] is not None and after["avg_total_tokens"] > before["avg_total_tokens"]
    ]
    text = alt.Chart(data(steps)).mark_text(dy=16, color=TEXT, fontSize=12, fontStyle="italic")
    shown = where("datum.room * width > datum.needs_px", "label")
    return [text.encode(x="x:Q", y="y:Q", text=shown)] if steps else []


def cost_success(study: Study) -> Chart | None:
    """Cost against success: the frontier, and how sure each point of it is."""
    known = study.tables["pareto"].filter(
        pl.col("cost_usd").is_not_null() & pl.col("success_rate").is_not_null()
    )
    if known.is_empty():
        return None
    rows = [
        row
        | {
            "label": _sure(row),
            "frontier": "on the frontier" if row["on_frontier"] else "beaten by another",
        }
        for row in rows_of(known)
    ]
    rows = placed(rows, "cost_usd", "success_rate")
    x = number_axis(alt.X, "cost_usd", "Cost per trial (mean, USD)", form="~g")
    y = number_axis(alt.Y, "success_rate", "Success (share of judged trials)", form=".0%")
    base = alt.Chart(data(rows))
    stairs = (
        base.transform_filter("datum.on_frontier")
        .mark_line(color=BLUE, interpolate="step-after", strokeWidth=2)
        .encode(x=x, y=y)
        .add_params(zoom())
    )
    columns = ("strategy", "cost_usd", "success_rate", "on_frontier", "p_on_frontier")
    points = base.mark_point(filled=True, size=150, opacity=1).encode(
        x=x, y=y, tooltip=tips(columns), **_told_apart(rows, "frontier", STANDINGS, None)
    )
    return Chart(
        name="cost_success",
        title="Cost against success",
        alt=f"Mean cost and success of {known.height} strategies; the line is the frontier. "
        + spoken(rows, ("cost_usd", "success_rate")),
        table="pareto",
        spec=finished(alt.layer(stairs, points, *named_points(base, x, y)), height=_HEIGHT),
    )


def _told_apart(
    rows: Sequence[Row], field: str, kinds: Mapping[str, tuple[str, str]], title: str | None
) -> dict[str, Any]:
    """Colour and shape of the kinds that occur, which one legend explains."""
    used = {kind: look for kind, look in kinds.items() if any(row[field] == kind for row in rows)}
    colour = colours({kind: colour for kind, (colour, _) in used.items()})
    shape = alt.Scale(domain=list(used), range=[shape for _, shape in used.values()])
    return {
        "color": alt.Color(f"{field}:N", title=title, scale=colour, legend=legend()),
        "shape": alt.Shape(f"{field}:N", title=title, scale=shape, legend=legend()),
    }


def _sure(row: Row) -> str:
    """The name, with how surely it is on the frontier."""
    if not row["on_frontier"] or row["p_on_frontier"] is None:
        return str(row["strategy"])
    return f"{row['strategy']} ({100 * row['p_on_frontier']:.0f} % sure)"
