"""What people have on file, put into the frames that a study takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from analysis.errors import FrameError
from analysis.frames import CALLS, TRIAL_KEY, Column, calls_frame, outcomes_frame, strategies_frame
from analysis.sources import (
    arena_comparisons,
    number_repeats,
    ranking_comparisons,
    refuse_unused,
    rename,
    with_prices,
)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The arguments of `study.study` that hold data."""

    outcomes: pl.DataFrame
    calls: pl.DataFrame
    strategies: pl.DataFrame
    comparisons: pl.DataFrame | None
    rankings: pl.DataFrame | None


def evidence(
    *,
    outcomes: pl.DataFrame | None = None,
    rankings: pl.DataFrame | None = None,
    comparisons: pl.DataFrame | None = None,
    calls: pl.DataFrame | None = None,
    prices: pl.DataFrame | None = None,
    families: pl.DataFrame | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    allow_mixed: bool = False,
    only: Sequence[str] = (),
) -> Evidence:
    """Put tables as they were read into the frames of a study.

    Args:
        outcomes, rankings, comparisons, calls: at least one of them; rankings and comparisons together are
            ranked together, and take the place of the outcomes' own comparisons.
        prices: what models cost.
        families: `strategy, family`, and optionally `tier`.
        columns: wanted names and the foreign columns that they are joined from.
        only: the strategies to keep; by default all.
        allow_mixed: whether a strategy may mix models or prompts in its calls.

    Raises:
        FrameError: nothing was given, or a table cannot be used.
    """
    given = [outcomes, rankings, comparisons, calls]
    if all(frame is None for frame in given):
        raise FrameError("Nothing to analyse: give --outcomes, --rankings, --comparisons or --calls.")
    refuse_unused(columns or {}, [frame for frame in given if frame is not None])
    renamed = [None if frame is None else _kept(rename(frame, columns or {}), only) for frame in given]
    outcomes, rankings, comparisons, calls = number_repeats(renamed)
    if calls is not None and not allow_mixed:
        refuse_mixed(calls)
    ledger = calls_frame(_empty(CALLS) if calls is None else calls)
    if prices is not None:
        ledger = with_prices(ledger, prices)
    trials = outcomes_frame(_trials(ledger) if outcomes is None else outcomes)
    verdicts = _verdicts(rankings, comparisons)
    return Evidence(
        outcomes=trials,
        calls=ledger,
        strategies=_strategies(trials, verdicts, families),
        comparisons=verdicts,
        rankings=rankings,
    )


def _kept(frame: pl.DataFrame, only: Sequence[str]) -> pl.DataFrame:
    """The rows about strategies in `only`; comparisons need both of theirs."""
    for name in ("strategy", "winner", "loser", "model_a", "model_b"):
        # The winner of the arena's format is a side; that of a ledger's row says what came of it.
        verdict = name == "winner" and {"model_a", "opponent"} & set(frame.columns)
        if only and name in frame.columns and not verdict:
            frame = frame.filter(pl.col(name).cast(pl.String).is_in(only))
    return frame


def refuse_mixed(calls: pl.DataFrame) -> None:
    """Raises `FrameError` where one strategy's calls come from several models or prompts."""
    if "strategy" not in calls.columns:
        return
    # Judges' calls are not a strategy's own, whichever model makes them.
    kind = pl.col("kind") if "kind" in calls.columns else pl.lit("generation")
    calls = calls.filter(pl.col("strategy").is_not_null() & (kind.fill_null("generation") == "generation"))
    for name in ("model", "prompt_hash"):
        if name not in calls.columns:
            continue
        counted = calls.group_by("strategy").agg(pl.col(name).drop_nulls().unique().sort()).sort("strategy")
        mixed = counted.filter(pl.col(name).list.len() > 1)
        if mixed.height:
            raise FrameError(
                f"calls: strategy {mixed['strategy'][0]!r} mixes {mixed[name].list.len()[0]} values of {name} "
                f"({', '.join(map(str, mixed[name][0][:3]))}). Add {name} to the strategy with --columns "
                f"strategy=strategy+{name}, or allow it with --allow-mixed."
            )


def _trials(calls: pl.DataFrame) -> pl.DataFrame:
    """The trials that a ledger alone tells of: not judged, ok where any call was."""
    ok = pl.when((pl.col("status") == "ok").any()).then(pl.lit("ok")).otherwise(pl.lit("failed"))
    return (
        calls.filter(pl.col("kind") == "generation").group_by(TRIAL_KEY, maintain_order=True).agg(status=ok)
    )


def _verdicts(rankings: pl.DataFrame | None, comparisons: pl.DataFrame | None) -> pl.DataFrame | None:
    parts = []
    if rankings is not None:
        parts.append(ranking_comparisons(rankings).drop("repeat"))
    if comparisons is not None:
        arena = arena_comparisons(comparisons)
        named = [
            name for name in ("task_id", "winner", "loser", "tie", "weight", "items") if name in arena.columns
        ]
        parts.append(
            arena.select(named).cast({n: pl.String for n in ("task_id", "winner", "loser") if n in named})
        )
    return pl.concat(parts, how="diagonal_relaxed") if parts else None


def _strategies(
    trials: pl.DataFrame, verdicts: pl.DataFrame | None, families: pl.DataFrame | None
) -> pl.DataFrame:
    names = set(trials["strategy"].unique())
    if verdicts is not None:
        names |= {
            name
            for side in ("winner", "loser")
            if side in verdicts.columns
            for name in verdicts[side].unique()
        }
    listed = pl.DataFrame({"strategy": sorted(filter(None, names))}, schema={"strategy": pl.String})
    if families is None:
        return listed
    if "strategy" not in families.columns or "family" not in families.columns:
        raise FrameError(
            f"families: no column strategy or family (there are: {', '.join(families.columns)})."
        )
    known = strategies_frame(families, pl.DataFrame(schema={"strategy": pl.String}))
    joined = listed.join(known, on="strategy", how="left").sort("position", "strategy", nulls_last=True)
    return joined.drop("position")


def _empty(columns: Mapping[str, Column]) -> pl.DataFrame:
    return pl.DataFrame(schema={name: column.dtype for name, column in columns.items()})
