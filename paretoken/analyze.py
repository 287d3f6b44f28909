"""`paretoken analyze`: the same analysis as of a run, on files that people already have."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from paretoken.errors import InputError
from paretoken.reporting import Page, Parquet


def _file(name: str, help_text: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(name, help=help_text, show_default=False)
    return found


def analyze(
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    outcomes: Annotated[
        Path | None, _file("--outcomes", "One row per trial: task_id, strategy, success or score.")
    ] = None,
    rankings: Annotated[Path | None, _file("--rankings", "task_id, strategy, rank or score.")] = None,
    comparisons: Annotated[
        Path | None, _file("--comparisons", "task_id, winner, loser; or model_a, model_b, winner.")
    ] = None,
    calls: Annotated[Path | None, _file("--calls", "One row per call: a ledger with tokens.")] = None,
    prices: Annotated[Path | None, _file("--prices", "model, input_usd_per_1m, output_usd_per_1m.")] = None,
    families: Annotated[Path | None, _file("--families", "strategy, family, and optionally tier.")] = None,
    columns: Annotated[
        str, typer.Option(help="Foreign column names: task_id=question,strategy=model+prompt,success=solved.")
    ] = "",
    only: Annotated[list[str] | None, typer.Option(help="A strategy to keep; may be given often.")] = None,
    weight: Annotated[
        Literal["task", "comparison", "ranking"],
        typer.Option(help="What counts the same: task, comparison or ranking."),
    ] = "task",
    ties: Annotated[
        Literal["half", "davidson", "drop"], typer.Option(help="half, davidson or drop.")
    ] = "half",
    clip: Annotated[int | None, typer.Option(help="At most this many comparisons of a task count.")] = None,
    l2: Annotated[float, typer.Option(help="Weight of the penalty on abilities.")] = 0.01,
    anchor: Annotated[str, typer.Option(help="What stands at Elo 1000: mean, or a strategy.")] = "mean",
    baseline: Annotated[str | None, typer.Option(help="Strategy that gains are measured from.")] = None,
    threshold: Annotated[float, typer.Option(help="Elo that 1,000 more tokens must buy.")] = 2.0,
    buckets: Annotated[str, typer.Option(help="Edges of the token buckets.")] = "2000,5000,10000",
    reference_cost: Annotated[float, typer.Option(help="USD that a task's cost is compared with.")] = 0.07,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    bootstrap: Annotated[int, typer.Option(help="How often the tasks are resampled.")] = 1000,
    hierarchical: Annotated[
        bool, typer.Option("--hierarchical", help="Also fit strategy-by-task effects.")
    ] = False,
    group: Annotated[
        Literal["task", "category"], typer.Option(help="Whose effects: task or category.")
    ] = "task",
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Strategies may mix models or prompts in their calls.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    page: Page = True,
    parquet: Parquet = False,
) -> None:
    """Rank strategies and price their skill, from outcomes, rankings, comparisons or ledgers on file.

    Example: paretoken analyze --outcomes outcomes.csv --calls calls.jsonl --out results
    """
    from analysis.errors import NotIdentifiedError
    from analysis.evidence import evidence
    from analysis.options import Options
    from analysis.report import Wanted, write_report
    from analysis.sources import column_map, read_table
    from analysis.weighting import Weighting
    from paretoken.reporting import folder, show_files, show_result

    options = Options(
        weighting=Weighting(weight=weight, ties=ties, clip=clip),
        l2=l2,
        anchor=None if anchor == "mean" else anchor,
        baseline=baseline,
        threshold=threshold,
        buckets=_edges(buckets),
        reference_cost_usd=reference_cost,
        level=level,
        bootstrap=bootstrap,
        hierarchical=hierarchical,
        group=group,
        seed=seed,
    )
    paths = {
        "outcomes": outcomes,
        "rankings": rankings,
        "comparisons": comparisons,
        "calls": calls,
        "prices": prices,
        "families": families,
    }
    tables = {name: read_table(path) for name, path in paths.items() if path is not None}
    found = evidence(**tables, columns=column_map(columns), only=only or (), allow_mixed=allow_mixed)
    summary = write_report(
        folder("", out),
        outcomes=found.outcomes,
        calls=found.calls,
        strategies=found.strategies,
        comparisons=found.comparisons,
        rankings=found.rankings,
        options=options,
        wanted=Wanted(page=page, parquet=parquet, title="Analysis of files", provenance=_provenance(paths)),
        analysed=show_result,
    )
    show_files(summary)
    if summary.refusal and (outcomes or rankings or comparisons):
        raise NotIdentifiedError(summary.refusal)


def _provenance(paths: Mapping[str, Path | None]) -> dict[str, str]:
    """The files by name and content, so that a report can be traced to them."""
    import hashlib
    from importlib.metadata import version

    given = {
        f"File of {name}": f"{path.name}, sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for name, path in paths.items()
        if path is not None
    }
    reported = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return given | {"Reported": reported, "Code": f"paretoken {version('paretoken')}"}


def _edges(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"--buckets is {text!r}; give whole numbers such as 2000,5000,10000.") from None
