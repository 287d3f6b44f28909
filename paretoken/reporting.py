"""`paretoken report`: a run's frames from the database into the analysis, its files into a folder."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paretoken.errors import InputError

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from analysis.options import Options
    from analysis.report import ReportSummary
    from analysis.report.scaling_table import ScalingRow
    from db.connection import Connection
    from db.reader import Row

PAGE = "report.html"
_OTHER_FOLDER = "Choose another folder with --out."
_WIDTH_OF_A_PIPE = 150
_ALL_COLUMNS_FIT = 110
_LEFT_OUT_WHEN_NARROW = ("OK trials", "OK calls", "Elo / 1K")
_MOST_FOR_A_NAME = 24

RunId = Annotated[str, typer.Argument(help="The run's name, as `paretoken status` lists it.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the files; default runs/RUN_ID.")]
Page = Annotated[
    bool, typer.Option("--page/--no-page", help="Also report.html and charts/, which take some seconds.")
]
Parquet = Annotated[bool, typer.Option("--parquet", help="Also every table as a Parquet file.")]


def report(
    run_id: RunId,
    out: Out = None,
    comparisons: Annotated[
        Path | None,
        typer.Option(
            "--comparisons",
            help="People's own: task_id, winner, loser; task_id, strategy, rank; or the arena's format.",
            show_default=False,
        ),
    ] = None,
    page: Page = True,
    parquet: Parquet = False,
) -> None:
    """Write a run's report: what each strategy costs, what it is worth, and the verdict, as tables and as a page.

    Example: paretoken report arena --out results
    """
    from db import connection as database
    from db.runs import find_run
    from paretoken.services import migrated_database

    with migrated_database() as database_url, database.connect(database_url) as connection:
        run = find_run(connection, run_id)
        files = folder(run_id, out)
        summary = write(connection, run_id, files, people=comparisons, page=page, parquet=parquet)
        show(summary, simulated=run["simulated"])


def folder(run_id: str, out: Path | None) -> Path:
    """The run's folder, made and found writable before any work is done for it."""
    return writable(out or Path("runs") / run_id, otherwise=_OTHER_FOLDER)


def writable(chosen: Path, *, otherwise: str) -> Path:
    """The folder, made where it is not there. Raises `InputError`, which ends with what to do `otherwise`."""
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        probe = chosen / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"{chosen}: cannot be written ({error.strerror}). {otherwise}") from None
    return chosen


def write(
    connection: "Connection",
    run_id: str,
    out: Path,
    *,
    people: Path | None = None,
    page: bool = True,
    parquet: bool = False,
) -> "ReportSummary":
    """Analyse the run as it stands and write its files.

    Args:
        people: a file of people's comparisons to rank by.
        page, parquet: as `analysis.report.Wanted` takes them.
    """
    from analysis.report import Wanted, write_report
    from db.frames import read_frames, read_judged
    from db.runs import find_run
    from paretoken.ranking_evidence import ranking_evidence

    run = find_run(connection, run_id)
    frames = read_frames(connection, run=run["id"])
    judged = read_judged(connection, run=run["id"]) if run["experiment"].get("judges") else None
    found = ranking_evidence(run["experiment"], frames, judged, people)
    try:
        return write_report(
            out,
            outcomes=found.outcomes,
            comparisons=found.comparisons,
            compared_by=found.compared_by,
            judges=None if judged is None else judged.quality,
            calls=frames.calls,
            strategies=frames.strategies,
            options=options(run["experiment"]),
            wanted=Wanted(
                page=page,
                parquet=parquet,
                title=f"Run {run_id}",
                provenance=provenance(run, frames.calls),
                simulated=run["simulated"],
            ),
        )
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}). {_OTHER_FOLDER}") from None


def provenance(run: "Row", calls: "pl.DataFrame") -> dict[str, str]:
    """Where the numbers of a run come from; holds no key and no address."""
    from importlib.metadata import version

    experiment = run["experiment"]
    models = sorted(calls["model"].drop_nulls().unique())
    answered = calls["status"].value_counts(sort=True)
    facts = {
        "Run": run["run_id"],
        "Platform": run["source_platform"],
        "State": run["state"],
        "Experiment hash": run["experiment_hash"],
        "Prompts hash": run["prompts_hash"],
        "Models": ", ".join(models),
        "Prices (USD per 1,000,000 tokens)": _prices(experiment.get("prices", {}), models),
        "Calls by status": ", ".join(f"{count:,} {status}" for status, count in answered.iter_rows()),
        "Started": f"{run['created_at'].astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "Finished": f"{run['finished_at'].astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        if run["finished_at"]
        else "not yet",
        "Reported": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "Code": f"paretoken {version('paretoken')}",
    }
    return {name: fact or "none" for name, fact in facts.items()}


def _prices(prices: Mapping[str, Mapping[str, Any]], models: Sequence[str]) -> str:
    told = []
    for model in models:
        price = prices.get(model)
        listed = (
            "unknown"
            if price is None
            else ", ".join(
                f"{name.removesuffix('_usd_per_1m')} {value:g}"
                for name, value in price.items()
                if value is not None
            )
        )
        told.append(f"{model}: {listed}")
    return "; ".join(told)


def options(experiment: Mapping[str, Any]) -> "Options":
    """What the experiment's [analysis] says.

    Raises:
        OptionError: a value that no analysis takes.
    """
    from analysis.options import Options

    names = {
        "baseline": "baseline",
        "threshold": "threshold_elo_per_1k",
        "reference_cost_usd": "reference_cost_usd",
    }
    section = experiment.get("analysis", {})
    given = {option: section.get(key) for option, key in names.items()}
    return Options(**{option: value for option, value in given.items() if value is not None})


def show(summary: "ReportSummary", *, simulated: bool = False, more: Sequence[str] = ()) -> None:
    """The scaling table, what to know about it, and where the files are (`more` of them), on standard output."""
    show_result(summary, simulated=simulated)
    show_files(summary, more=more)


def _console() -> "Console":
    from rich.console import Console

    # A pipe has no width of its own; a table that is cut to 80 columns says nothing.
    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE, highlight=False)


def show_result(summary: "ReportSummary", *, simulated: bool = False) -> None:
    """The scaling table and what to know about it."""
    from rich.text import Text

    from analysis.report.scaling_table import SIMULATED
    from analysis.safetext import terminal_text

    console = _console()
    if simulated:
        console.print(Text(SIMULATED))
    console.print(table(summary.rows, width=console.width))
    for line in (*summary.notes, *summary.warnings):
        console.print(Text(terminal_text(line)))
    # Into a pipe too: whoever waits for the charts can read meanwhile.
    console.file.flush()


def show_files(summary: "ReportSummary", *, more: Sequence[str] = ()) -> None:
    """Where the files are, `more` of them."""
    from rich.text import Text

    console = _console()
    if summary.files:
        out = summary.files[0].parent
        names = [*more, *(path.name for path in summary.files if path.parent == out)]
        names += ["charts/"] if any(path.parent != out for path in summary.files) else []
        console.print(Text(f"Files in {out}: {', '.join(names)}"))
        if (out / PAGE) in summary.files:
            console.print(Text(f"Look at {(out / PAGE).resolve()}"))


def table(rows: "Sequence[ScalingRow]", *, width: int) -> "Table":
    """Headers and verdicts may be broken over lines, numbers never; a narrow table has fewer columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from analysis.report.scaling_table import HEADERS
    from analysis.safetext import terminal_text

    narrow = width < _ALL_COLUMNS_FIT
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    cells = []
    for header, *texts in zip(HEADERS, *(row.texts() for row in rows), strict=True):
        if narrow and header in _LEFT_OUT_WHEN_NARROW:
            continue
        # The interval goes under its Elo.
        lines = [terminal_text(text.replace(" (", "\n(") if narrow else text) for text in texts]
        _add_column(shown, header, lines, last=header == HEADERS[-1])
        cells.append([Text(line) for line in lines])
    for row in zip(*cells, strict=True):
        shown.add_row(*row)
    return shown


def _add_column(table: "Table", header: str, texts: "Sequence[str]", *, last: bool) -> None:
    """As wide as its numbers, whatever its header; the last one takes what is left."""
    if last:
        table.add_column(header)
        return
    widest = max((len(line) for text in texts for line in text.split("\n")), default=0)
    width = max(widest, *(len(word) for word in header.split()))
    first = not table.columns
    table.add_column(
        header,
        justify="left" if first else "right",
        width=min(width, _MOST_FOR_A_NAME) if first else width,
        overflow="fold",
    )
