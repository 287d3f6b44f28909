"""What stands in the page, in its order: each section's figure, its tables, and how the figure is defined."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from analysis.costs import ALL
from analysis.report.columns import COLUMNS, Column
from analysis.report.drawing import Chart
from analysis.study import Study

MOST_ROWS = 200
"""Rows of a table in the page; the CSV file has all of them."""
MOST_LETTERS = 200


@dataclass(frozen=True, kw_only=True)
class TableView:
    """A result table as the page shows it."""

    name: str
    """Of its CSV file, without `.csv`."""
    caption: str
    columns: tuple[tuple[str, Column], ...]
    """The CSV's names, with heading and form."""
    rows: tuple[tuple[str, ...], ...]
    """As a reader sees them; not yet escaped."""
    left_out: int
    """Rows that only the CSV file has."""
    folded: bool
    """Whether it is shown only when asked for."""

    def is_text(self, column: int) -> bool:
        """Whether the column holds words, which stand left; numbers stand right."""
        return self.columns[column][1].form == ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page with a heading of its own."""

    id: str
    title: str
    definition: str
    """How the figure is defined, in a line."""
    charts: tuple[Chart, ...]
    tables: tuple[TableView, ...]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    title: str
    definition: str
    charts: tuple[str, ...] = ()
    open_tables: tuple[str, ...] = ()
    folded_tables: tuple[str, ...] = ()
    split: str = ""
    """Which part of `cost_split` belongs here."""


_PLANS: Mapping[str, _Plan] = {
    "skill": _Plan(
        title="Elo against tokens",
        definition="Each point is a strategy: average tokens of its trials, and Elo from comparisons inside each "
        "task. Whiskers are intervals clustered by task; a slope is the Elo that 1,000 more tokens bought"
        " in that step. An open side of an interval is not drawn.",
        charts=("elo_tokens",),
        folded_tables=("elo_per_token", "elo_table"),
    ),
    "frontier": _Plan(
        title="Cost against success",
        definition="Mean cost per trial against the share of judged trials that passed their checks. On the "
        "frontier: no other strategy costs no more and succeeds no less, and is better in one of the two."
        " How surely: the share of resampled sets of tasks in which it is on it.",
        charts=("cost_success",),
        folded_tables=("pareto",),
    ),
    "buckets": _Plan(
        title="Token buckets",
        definition="Trials with an answer, sorted by their tokens: where more tokens stop helping, the bars stop "
        "rising. Mean Elo is that of the strategies whose trials are in the bucket.",
        charts=("token_buckets",),
        open_tables=("token_buckets",),
    ),
    "cost": _Plan(
        title="Cost per task",
        definition="A task's cost is the mean over its repeats; each strategy's work on a task counts as a task of "
        "its own. The reference comes from another task set: something to compare with, no target. The "
        "long tail is what the dearest tasks cost together.",
        charts=("cost_distribution",),
        open_tables=("cost_summary", "cost_tail"),
        folded_tables=("dearest", "cost_distribution"),
    ),
    "outcome": _Plan(
        title="Success against failure",
        definition="Tokens of all paid calls, by what became of their trial. No answer: an outage or a cancelled "
        "run, which is missing, not a failure.",
        charts=("tokens_by_outcome",),
        folded_tables=("cost_split",),
        split="outcome",
    ),
    "retries": _Plan(
        title="First try against retry",
        definition="First: used calls of the first try. Rerun: used calls of later tries. Waste: calls that were "
        "paid and not used. Averages of tokens are first + rerun.",
        charts=("tokens_by_try",),
        open_tables=("strategy_tokens",),
        folded_tables=("cost_split",),
        split="try",
    ),
    "use": _Plan(
        title="Where the tokens go",
        definition="Prompt: input of a first round. Context: input of later rounds, which carries along what came "
        "before. Output: what the model wrote. Retries: rerun and waste. Judging: calls that only score; "
        "they are nobody's.",
        charts=("tokens_by_use",),
        folded_tables=("cost_split",),
        split="use",
    ),
    "categories": _Plan(
        title="Categories",
        definition="Share of judged trials that succeeded, averaged over the category's tasks.",
        charts=("categories",),
        folded_tables=("categories",),
    ),
    "pairs": _Plan(
        title="Pairwise win shares",
        definition="Of all comparisons of two strategies, the share that the row's strategy won, by the weights and "
        "the tie rule of the ranking. The table of pairs gives each difference in Elo and how sure it is.",
        charts=("win_shares",),
        folded_tables=("win_shares", "pairs"),
    ),
    "judges": _Plan(
        title="Judges",
        definition="Position bias: of two answers shown together, the share where the first is preferred minus the "
        "share where the second is. Agreement: the share of pairs that a judge read twice and decided the"
        " same.",
        charts=("judge_bias",),
        open_tables=("judges",),
    ),
    "choices": _Plan(
        title="Other prices, other estimators",
        definition="Elo beyond what the tokens had to buy, at several prices of Elo; and the Elo of the same "
        "comparisons under other weights, tie rules and models. A conclusion that needs one of them is "
        "weak.",
        folded_tables=("net_benefit", "estimators", "hierarchical"),
    ),
}

_CAPTIONS: Mapping[str, str] = {
    "cost_distribution": "Tasks by cost",
    "cost_split": "Tokens and cost by part",
    "cost_summary": "This run against the reference",
    "cost_tail": "The long tail: what the dearest tasks cost together",
    "categories": "Success, tokens and cost by category",
    "dearest": "The dearest tasks",
    "elo_per_token": "Tokens, Elo and the steps between strategies",
    "elo_table": "Elo with intervals and ranks",
    "estimators": "The same ranking under other estimators",
    "hierarchical": "Effects of strategy by task or category",
    "judges": "How far each judge can be trusted",
    "net_benefit": "Elo beyond what the tokens had to buy",
    "pairs": "Differences between strategies",
    "pareto": "Cost, success and the frontier",
    "strategy_tokens": "Trials and tokens per strategy",
    "token_buckets": "Trials by their tokens",
    "win_shares": "Win shares of all pairs",
}


def sections(study: Study, charts: Sequence[Chart]) -> Iterator[Section]:
    """The sections that the study has anything to say in."""
    drawn = {chart.name: chart for chart in charts}
    for name, plan in _PLANS.items():
        views = [_view(study, table, plan.split, folded=False) for table in plan.open_tables]
        views += [_view(study, table, plan.split, folded=True) for table in plan.folded_tables]
        shown = tuple(view for view in views if view is not None)
        figures = tuple(drawn[chart] for chart in plan.charts if chart in drawn)
        if shown or figures:
            yield Section(id=name, title=plan.title, definition=plan.definition, charts=figures, tables=shown)


def _view(study: Study, name: str, split: str, *, folded: bool) -> TableView | None:
    table = study.tables.get(name)
    if table is not None and name == "cost_split":
        table = table.filter(pl.col("split") == split)
    if table is None or table.is_empty():
        return None
    return table_view(name, table, folded=folded)


def table_view(name: str, table: pl.DataFrame, *, folded: bool) -> TableView:
    """A table for the page, with the row over all strategies first where rows are cut off."""
    shown = table.head(MOST_ROWS)
    if "strategy" in table.columns and table.height > MOST_ROWS:
        overall = table.filter(pl.col("strategy") == ALL)
        shown = pl.concat([overall, table.filter(pl.col("strategy") != ALL)]).head(MOST_ROWS)
    columns = tuple((column, COLUMNS[column]) for column in table.columns)
    rows = tuple(
        tuple(_short(column.text(value)) for (_, column), value in zip(columns, row, strict=True))
        for row in shown.iter_rows()
    )
    return TableView(
        name=name,
        caption=_CAPTIONS[name],
        columns=columns,
        rows=rows,
        left_out=table.height - shown.height,
        folded=folded,
    )


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
