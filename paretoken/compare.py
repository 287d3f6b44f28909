"""`paretoken compare`: what a new model, prompt or limit changed, on the tasks that two runs share."""

import json
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.wording import counted

if TYPE_CHECKING:
    import polars as pl

    from analysis.changes import Changes
    from db.reader import Row

_WIDTH_OF_A_PIPE = 130
_UNKNOWN = "–"

FIGURES = {
    "success_rate": ("success", "%"),
    "total_tokens": ("tokens per trial", ",.1f"),
    "cost_usd": ("USD per trial", ",.6g"),
    "elo": ("Elo", ",.1f"),
    "short_of_frontier": ("short of the frontier", "%"),
}
"""Figure -> what a reader calls it, and the form of its numbers; changes of shares are in percentage points, pp."""


def compare(
    run_a: Annotated[str, typer.Argument(help="The run to compare with.")],
    run_b: Annotated[str, typer.Argument(help="The newer one.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for a script.")] = False,
) -> None:
    """Say what changed from one run to another: success, tokens, cost, Elo, and whether it is nearer the frontier.

    Only tasks and strategies that both runs have are compared, task by task.

    Example: paretoken compare arena-old arena-new
    """
    from analysis.changes import changes, usage
    from db import connection as database
    from db.frames import read_frames
    from db.runs import find_run
    from paretoken.reporting import options
    from paretoken.services import migrated_database

    with migrated_database() as database_url, database.connect(database_url) as connection:
        runs = [find_run(connection, run_id) for run_id in (run_a, run_b)]
        frames = [read_frames(connection, run=run["id"]) for run in runs]
    before, after = (usage(frame.outcomes, frame.calls) for frame in frames)
    found = changes(before, after, options(runs[0]["experiment"]))
    facts = [_facts(run, frame.calls) for run, frame in zip(runs, frames, strict=True)]
    if as_json:
        typer.echo(json.dumps(_object(found, facts), ensure_ascii=False, indent=2, allow_nan=False))
    else:
        _show(found, facts)


def _facts(run: "Row", calls: "pl.DataFrame") -> dict[str, Any]:
    """What may explain a change; None where nobody knows: a ledger that was imported holds no experiment."""
    imported = bool(run["experiment"].get("imported"))
    return {
        "run_id": run["run_id"],
        "experiment_hash": None if imported else run["experiment_hash"],
        "prompts_hash": None if imported else run["prompts_hash"],
        "models": sorted(calls["model"].drop_nulls().unique()),
    }


def standing(before: float, after: float, significant: bool | None) -> str:
    """How a strategy moved against the frontier, in words; `before` and `after` are what it lacks."""
    if before == after == 0:
        return "on the frontier in both"
    if not significant:
        return "no clear change"
    return "nearer the frontier" if after < before else "farther from the frontier"


def _object(found: "Changes", facts: list[dict[str, Any]]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
        for row in found.table.iter_rows(named=True)
    ]
    for row in rows:
        if row["figure"] == "short_of_frontier":
            row["standing"] = standing(row["run_a"], row["run_b"], row["significant"])
    return {
        "run_a": facts[0],
        "run_b": facts[1],
        "tasks": found.tasks,
        "tasks_only_a": found.only_a,
        "tasks_only_b": found.only_b,
        "strategies_only_a": list(found.strategies_only_a),
        "strategies_only_b": list(found.strategies_only_b),
        "frontier_over": found.price,
        "unknown_cost": found.unknown_cost,
        "no_frontier": found.no_frontier,
        "no_elo": found.no_elo,
        "changes": rows,
    }


def _show(found: "Changes", facts: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from analysis.safetext import terminal_text

    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE, highlight=False)
    for line in _heading(found, facts):
        console.print(Text(terminal_text(line)))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for header in ("Strategy", "Figure", "Tasks", "A", "B", "Change (interval)", "Verdict"):
        table.add_column(header, justify="left" if header in ("Strategy", "Figure", "Verdict") else "right")
    last = None
    for row in found.table.iter_rows(named=True):
        name = "" if row["strategy"] == last else row["strategy"]
        last = row["strategy"]
        table.add_row(*(Text(terminal_text(text)) for text in (name, *_texts(row))))
    console.print(table)
    for line in _footing(found):
        console.print(Text(terminal_text(line)))


def _heading(found: "Changes", facts: list[dict[str, Any]]) -> Iterator[str]:
    a, b = facts
    yield f"A is {a['run_id']}, B is {b['run_id']}: {counted(found.tasks, 'task')} in common."
    if found.only_a or found.only_b:
        yield f"Left out: {counted(found.only_a, 'task')} that only A has, {found.only_b:,} that only B has."
    for run, names in (("A", found.strategies_only_a), ("B", found.strategies_only_b)):
        if names:
            yield f"Left out: strategies that only {run} has: {', '.join(names)}."
    told = [f"models: A {', '.join(a['models']) or 'none'}, B {', '.join(b['models']) or 'none'}"]
    for what, key in (("experiment", "experiment_hash"), ("prompts", "prompts_hash")):
        told.append(f"{what}: {_difference(a[key], b[key])}")
    yield "; ".join(told) + "."


def _difference(a: str | None, b: str | None) -> str:
    if None in (a, b):
        return "unknown (imported)"
    return "the same" if a == b else "changed"


def _footing(found: "Changes") -> Iterator[str]:
    if found.no_elo:
        yield f"No Elo: {found.no_elo}"
    if found.table["open"].any():
        yield (
            "(open): the worse run never beat or tied the better, also not by way of others, so the change in Elo has "
            "no finite size; the figure shown comes from the penalty alone."
        )
    yield f"{_frontier(found)} Each interval holds alone."


def _frontier(found: "Changes") -> str:
    if found.no_frontier:
        return f"No frontier: {found.no_frontier}"
    over = "cost" if found.price == "cost_usd" else f"tokens, since {found.unknown_cost:,} costs are unknown"
    return f"The frontier is that of both runs together, in success and {over}."


def _texts(row: dict[str, Any]) -> tuple[str, ...]:
    title, form = FIGURES[row["figure"]]
    change = _number(row["change"], form, sign="+")
    if row["low"] is not None:
        change += f" ({_number(row['low'], form, sign='+')} to {_number(row['high'], form, sign='+')})"
    if row["open"]:
        change += " (open)"
    return (
        title,
        f"{row['tasks']:,}",
        _number(row["run_a"], form),
        _number(row["run_b"], form),
        change,
        _verdict(row),
    )


def _verdict(row: dict[str, Any]) -> str:
    if row["change"] is None:
        return "unknown"
    if row["figure"] == "short_of_frontier":
        return standing(row["run_a"], row["run_b"], row["significant"])
    if row["significant"] is None:
        return "cannot tell"
    return "significant" if row["significant"] else "not significant"


def _number(value: float | None, form: str, *, sign: str = "") -> str:
    if value is None:
        return _UNKNOWN
    if form == "%":
        return f"{100 * value:{sign},.1f} {'pp' if sign else '%'}"
    return format(value, sign + form)
