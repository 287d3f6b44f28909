"""Charts of where tokens and money go."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import altair as alt
import polars as pl

from analysis.report.drawing import (
    BLUE,
    MOST_STRATEGIES,
    RED,
    TEXT,
    Chart,
    cheapest_first,
    colours,
    data,
    finished,
    legend,
    number_axis,
    rows_of,
    spoken,
    strategies_beside,
    tips,
)
from analysis.study import Study
from analysis.wording import counted


def token_buckets(study: Study) -> Chart | None:
    """Success of trials by their tokens."""
    rows = rows_of(study.tables["token_buckets"].filter(pl.col("trials") > 0))
    if not any(row["judged"] for row in rows):
        return None
    for row in rows:
        row["label"] = counted(row["trials"], "trial")
    base = alt.Chart(data(rows))
    x = alt.X("bucket:N", title="Tokens of a trial", sort=None, axis=alt.Axis(labelAngle=0))
    share = alt.Scale(domain=[0, 1.08], nice=False)
    y = number_axis(alt.Y, "success_rate", "Success (share of judged trials)", form=".0%", scale=share)
    columns = ("bucket", "trials", "judged", "success_rate", "mean_elo")
    bars = base.mark_bar(color=BLUE, size=46).encode(x=x, y=y, tooltip=tips(columns))
    counts = base.mark_text(dy=-9, color=TEXT, fontSize=13).encode(x=x, y="success_rate:Q", text="label:N")
    return Chart(
        name="token_buckets",
        title="Success by tokens",
        alt="Share of judged trials that succeed, in buckets by their tokens. "
        + spoken(rows, ("trials", "success_rate"), name="bucket"),
        table="token_buckets",
        spec=finished(alt.layer(bars, counts), height=280),
    )


def cost_distribution(study: Study) -> Chart | None:
    """How many tasks cost how much, with the reference."""
    bins = (
        study.tables["cost_distribution"]
        .group_by("from_usd", "to_usd")
        .agg(pl.col("tasks").sum(), pl.col("cost_usd").sum())
        .sort("to_usd")
    )
    rows = rows_of(bins.filter(pl.col("to_usd") > 0))
    if not rows:
        return None
    reference = study.options.reference_cost_usd
    scale = alt.Scale(type="log", nice=False)
    axis = alt.Axis(format="~g", labelOverlap=True, tickCount=6)
    bars = (
        alt.Chart(data(rows))
        .mark_rect(color=BLUE, stroke=BLUE, strokeOpacity=0.35)
        .encode(
            x=alt.X("from_usd:Q", title="Cost of a task (USD, logarithmic)", scale=scale, axis=axis),
            x2="to_usd:Q",
            y=number_axis(alt.Y, "tasks", "Tasks × strategies (number)", scale=alt.Scale(domainMin=0)),
            y2=alt.Y2Datum(0),
            tooltip=tips(("from_usd", "to_usd", "tasks", "cost_usd")),
        )
    )
    layers: list[Any] = [bars]
    if reference > 0:
        line = alt.Chart(data([{"usd": reference, "label": f"reference {reference:g} USD"}]))
        end: Literal["right", "left"] = "right" if reference > rows[0]["from_usd"] else "left"
        layers += [
            line.mark_rule(color=RED, strokeWidth=2, strokeDash=[6, 4]).encode(x="usd:Q"),
            line.mark_text(align=end, dx=-6 if end == "right" else 6, color=TEXT, fontSize=13).encode(
                x="usd:Q", y=alt.value(10), text="label:N"
            ),
        ]
    return Chart(
        name="cost_distribution",
        title="Cost per task",
        alt=f"How many tasks cost how much, on a logarithmic scale, with the reference of {reference:g} USD. "
        + spoken(rows, ("tasks",), name="to_usd"),
        table="cost_distribution",
        spec=finished(alt.layer(*layers), height=280),
    )


def split_chart(split: str, title: str, parts: Mapping[str, str]) -> Callable[[Study], Chart | None]:
    def draw(study: Study) -> Chart | None:
        names = cheapest_first(study)
        shown = names[:MOST_STRATEGIES]
        table = study.tables["cost_split"].filter(
            pl.col("split") == split, pl.col("tokens") > 0, pl.col("strategy").is_in(shown)
        )
        rows = [row | {"place": list(parts).index(row["part"])} for row in rows_of(table)]
        if not rows:
            return None
        used = {part: colour for part, colour in parts.items() if any(row["part"] == part for row in rows)}
        columns = ("strategy", "part", "calls", "tokens", "share_of_tokens", "cost_usd", "share_of_cost")
        drawing = (
            alt.Chart(data(rows))
            .mark_bar()
            .encode(
                y=strategies_beside(shown),
                x=alt.X(
                    "share_of_tokens:Q",
                    title="Share of the strategy's tokens",
                    scale=alt.Scale(domain=[0, 1]),
                    axis=alt.Axis(format=".0%", tickCount=5),
                ),
                color=alt.Color("part:N", title=None, scale=colours(used), legend=legend()),
                order=alt.Order("place:Q"),
                tooltip=tips(columns),
            )
        )
        return Chart(
            name=f"tokens_by_{split}",
            title=title,
            alt=f"{title}, as shares of each strategy's tokens. " + spoken(rows, ("part", "share_of_tokens")),
            table="cost_split",
            spec=finished(drawing, height=34 * len(shown)),
            left_out=len(names) - len(shown),
        )

    return draw
