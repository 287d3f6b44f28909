"""`paretoken report`: a run's frames from the database into the analysis, its files into a folder."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paretoken.errors import InputError

if TYPE_CHECKING:
    from analysis.options import Options
    from analysis.report import ReportSummary
    from db.connection import Connection

RunId = Annotated[str, typer.Argument(help="The run's name, as `paretoken status` lists it.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the files; default runs/RUN_ID.")]


def report(run_id: RunId, out: Out = None) -> None:
    """Write a run's tables: what each strategy costs, what it is worth, and the verdict.

    Example: paretoken report arena --out results
    """
    from db import connection as database
    from paretoken.services import readable_database

    with readable_database() as database_url, database.connect(database_url) as connection:
        show(write(connection, run_id, folder(run_id, out)))


def folder(run_id: str, out: Path | None) -> Path:
    """The run's folder, made and found writable before any work is done for it."""
    chosen = out or Path("runs") / run_id
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        probe = chosen / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(
            f"{chosen}: cannot be written ({error.strerror}). Choose another folder with --out."
        ) from None
    return chosen


def write(connection: "Connection", run_id: str, out: Path) -> "ReportSummary":
    """Analyse the run as it stands and write its files."""
    from analysis.report import write_report
    from db.frames import read_frames
    from db.runs import find_run

    run = find_run(connection, run_id)
    frames = read_frames(connection, run=run["id"])
    return write_report(
        out,
        outcomes=frames.outcomes,
        calls=frames.calls,
        strategies=frames.strategies,
        options=options(run["experiment"]),
        simulated=run["simulated"],
    )


def options(experiment: dict[str, Any]) -> "Options":
    """What the experiment's [analysis] says."""
    from analysis.options import Options

    section = experiment.get("analysis", {})
    return Options(baseline=section.get("baseline"), threshold=section.get("threshold_elo_per_1k", 2.0))


def show(summary: "ReportSummary") -> None:
    """The scaling table, warnings and files, on standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from analysis.report.scaling_table import HEADERS
    from analysis.safetext import terminal_text

    # A pipe has no width of its own; a table that is cut to 80 columns says nothing.
    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table(*HEADERS)
    for row in summary.rows:
        table.add_row(*(Text(terminal_text(cell)) for cell in row.texts()))
    console.print(table)
    for line in (*summary.notes, *summary.warnings):
        console.print(Text(terminal_text(line)))
    if summary.refusal:
        console.print(Text(terminal_text(summary.refusal)))
    console.print(Text("Files: " + ", ".join(str(path) for path in summary.files)))
