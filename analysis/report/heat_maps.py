"""Charts of shares: strategies against categories, against each other, and how far judges can be trusted."""

import altair as alt
import polars as pl

from analysis.report.drawing import (
    GREY,
    MOST_STRATEGIES,
    VIOLET,
    Chart,
    cheapest_first,
    data,
    finished,
    heat_map,
    rows_of,
    spoken,
    strategies_below,
    strategies_beside,
    tips,
)
from analysis.study import Study


def categories(study: Study) -> Chart | None:
    """Success of each strategy in each category."""
    names = cheapest_first(study)
    shown = names[:MOST_STRATEGIES]
    table = study.tables["categories"].filter(
        pl.col("success_rate").is_not_null() & pl.col("strategy").is_in(shown)
    )
    if table["category"].n_unique() < 2:
        return None
    rows = rows_of(table)
    columns = ("category", "strategy", "tasks", "judged", "success_rate", "mean_tokens", "mean_cost_usd")
    return Chart(
        name="categories",
        title="Success by category",
        alt="Success of each strategy in each category. " + spoken(rows, ("category", "success_rate")),
        table="categories",
        spec=heat_map(
            rows,
            x=strategies_below(shown),
            y=alt.Y("category:N", title=None, axis=alt.Axis(labelLimit=130)),
            value="success_rate",
            columns=columns,
            across=len(shown),
            down=table["category"].n_unique(),
        ),
        left_out=len(names) - len(shown),
    )


def win_shares(study: Study) -> Chart | None:
    """How much of each pair's comparisons the strategy of the row won."""
    table = study.tables["win_shares"]
    names = table["strategy"].unique(maintain_order=True).to_list()
    shown = names[:MOST_STRATEGIES]
    rows = rows_of(table.filter(pl.col("strategy").is_in(shown) & pl.col("opponent").is_in(shown)))
    if not rows:
        return None
    return Chart(
        name="win_shares",
        title="Who wins against whom",
        alt="Share of its comparisons that the strategy of a row won against the strategy of a column. "
        + spoken(rows, ("opponent", "win_share")),
        table="win_shares",
        spec=heat_map(
            rows,
            x=strategies_below(shown, "opponent", "Against"),
            y=strategies_beside(shown),
            value="win_share",
            columns=("strategy", "opponent", "win_share", "tasks"),
            across=len(shown),
            down=len(shown),
        ),
        left_out=len(names) - len(shown),
    )


def judge_bias(study: Study) -> Chart | None:
    """How far each judge prefers what it is shown first."""
    judges = study.tables.get("judges")
    rows = [] if judges is None else rows_of(judges.filter(pl.col("position_bias").is_not_null()))
    if not rows:
        return None
    base = alt.Chart(data(rows))
    columns = ("judge", "verdicts", "ties", "position_bias", "agreement", "unparsable", "failed")
    bars = base.mark_bar(color=VIOLET, size=18).encode(
        y=alt.Y("judge:N", title=None, sort=None),
        x=alt.X(
            "position_bias:Q",
            title="Position bias (−1 last, +1 first)",
            scale=alt.Scale(domain=[-1, 1]),
            axis=alt.Axis(tickCount=5),
        ),
        tooltip=tips(columns),
    )
    zero = alt.Chart(data([{"zero": 0}])).mark_rule(color=GREY).encode(x="zero:Q")
    return Chart(
        name="judge_bias",
        title="Position bias of the judges",
        alt="Of two answers, how much more often a judge prefers the one shown first. "
        + spoken(rows, ("position_bias",), name="judge"),
        table="judges",
        spec=finished(alt.layer(bars, zero), height=max(60, 40 * len(rows))),
    )
