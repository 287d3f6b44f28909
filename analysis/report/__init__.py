"""Reports: the only part of `analysis` that writes files. Each file is there as a whole or not at all."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from analysis import cautions
from analysis.options import Options
from analysis.report.arena_table import arena_markdown
from analysis.report.files import write_chunks, write_csv, write_json_list, write_parquet
from analysis.report.scaling_table import ScalingRow, scaling_markdown, scaling_rows
from analysis.report.written import renew
from analysis.study import Study, study


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a report holds besides its tables, and what it says about itself."""

    page: bool = True
    """Also `report.html` and `charts/`, which take some seconds."""
    parquet: bool = False
    """Also every table as `NAME.parquet`."""
    title: str = "Analysis"
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Facts about where the numbers come from, by their name."""
    simulated: bool = False
    """The answers come from a simulated gateway; the report says so."""


@dataclass(frozen=True, kw_only=True)
class ReportSummary:
    """What was written, and what a command shows of it."""

    files: tuple[Path, ...]
    rows: tuple[ScalingRow, ...]
    """The scaling table; `scaling_table.HEADERS` and `row.texts()` give it as text."""
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    refusal: str | None
    """Why there is no Elo, where there is none."""


def write_report(
    out: Path,
    *,
    outcomes: pl.DataFrame,
    calls: pl.DataFrame,
    strategies: pl.DataFrame | None = None,
    comparisons: pl.DataFrame | None = None,
    rankings: pl.DataFrame | None = None,
    judges: pl.DataFrame | None = None,
    compared_by: str = "",
    options: Options | None = None,
    wanted: Wanted | None = None,
    analysed: Callable[[ReportSummary], None] = lambda summary: None,
) -> ReportSummary:
    """Analyse and write everything into the folder `out`; files of a former report there go.

    Args:
        out: made if it is not there.
        outcomes, calls, strategies, comparisons, rankings, judges, compared_by, options: as `study.study` takes them.
        wanted: what is written besides the tables.
        analysed: told the result, without files, when the tables are written; to draw the charts takes longer.

    Raises:
        AnalysisError: one line for the user.
        OSError: the folder cannot be written.
    """
    found = study(
        outcomes=outcomes,
        calls=calls,
        strategies=strategies,
        comparisons=comparisons,
        rankings=rankings,
        judges=judges,
        compared_by=compared_by,
        options=options or Options(),
    )
    return _write_study(out, found, wanted or Wanted(), analysed)


def _write_study(
    out: Path, found: Study, wanted: Wanted, analysed: Callable[[ReportSummary], None]
) -> ReportSummary:
    rows, notes, warnings = scaling_rows(found), cautions.notes(found), cautions.warnings(found)
    markdown = scaling_markdown(found, notes=notes, warnings=warnings, simulated=wanted.simulated)
    files = (
        *(write_csv(out / f"{name}.csv", table) for name, table in found.tables.items()),
        write_chunks(out / "diagnostics.json", [_diagnostics(found, warnings)]),
        write_json_list(out / "arena_results.json", _arena_results(found.trials)),
        write_chunks(out / "scaling_table.md", [markdown]),
        write_chunks(out / "arena_table.md", [arena_markdown(found, simulated=wanted.simulated)]),
    )
    if wanted.parquet:
        files += tuple(write_parquet(out / f"{name}.parquet", table) for name, table in found.tables.items())
    summary = ReportSummary(files=(), rows=rows, notes=notes, warnings=warnings, refusal=found.refusal)
    analysed(summary)
    if wanted.page:
        files += _write_page(out, found, wanted, rows=rows, notes=notes, warnings=warnings)
    files += (renew(out, files),)
    return replace(summary, files=files)


def _write_page(
    out: Path,
    found: Study,
    wanted: Wanted,
    *,
    rows: tuple[ScalingRow, ...],
    notes: tuple[str, ...],
    warnings: tuple[str, ...],
) -> tuple[Path, ...]:
    # Only here: the libraries that draw take a second to load.
    from analysis.report.charts import charts
    from analysis.report.page import page
    from analysis.report.rendering import write_drawings

    drawn = charts(found)
    text = page(
        found,
        drawn,
        rows=rows,
        notes=notes,
        warnings=warnings,
        title=wanted.title,
        provenance=wanted.provenance,
        simulated=wanted.simulated,
    )
    return (write_chunks(out / "report.html", [text]), *write_drawings(out / "charts", drawn))


def _diagnostics(found: Study, warnings: tuple[str, ...]) -> str:
    content = {"refusal": found.refusal, **found.diagnostics, "warnings": list(warnings)}
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _arena_results(trials: pl.DataFrame) -> Iterator[dict[str, Any]]:
    ordered = trials.sort("task_id", "strategy", "repeat").select(
        pl.col("task_id").alias("id"),
        "goal",
        "strategy",
        "repeat",
        "latency_s",
        pl.col("input_tokens").alias("prompt_tokens"),
        pl.col("output_tokens").alias("completion_tokens"),
        "total_tokens",
        pl.col("cost_usd").alias("estimated_cost"),
        "output",
        "confirmed_success",
    )
    return ordered.iter_rows(named=True)
