"""Which evidence ranks a run's strategies: checks, rules, a judge, or people's own comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from db.frames import Judged, RunFrames

PEOPLE = "people"


@dataclass(frozen=True, kw_only=True)
class RankingEvidence:
    """What a report is given to rank by."""

    outcomes: "pl.DataFrame"
    comparisons: "pl.DataFrame | None"
    """None: the outcomes are compared."""
    compared_by: str


def ranking_evidence(
    experiment: Mapping[str, Any], frames: "RunFrames", judged: "Judged | None", people: Path | None
) -> RankingEvidence:
    """What `[ranking] use` asks for; a file of people's comparisons comes before it.

    Raises:
        FrameError: the file does not fit the run, with its line.
    """
    import polars as pl

    from analysis.people import people_comparisons
    from analysis.rules import by_rules

    plain = frames.outcomes.with_columns(score=pl.lit(None, dtype=pl.Float64))
    if people is not None:
        comparisons = people_comparisons(
            people,
            tasks=set(frames.outcomes["task_id"]),
            strategies=frames.strategies["strategy"].to_list(),
        )
        return RankingEvidence(outcomes=plain, comparisons=comparisons, compared_by=f"people: {people.name}")
    use = _used(experiment)
    if use == "score":
        told = "the checks, then by scores"
        return RankingEvidence(outcomes=by_rules(frames.outcomes), comparisons=None, compared_by=told)
    if use == PEOPLE:
        told = "the checks: give people's comparisons with paretoken report --comparisons FILE"
        return RankingEvidence(outcomes=plain, comparisons=None, compared_by=told)
    if use == "checks" or judged is None:
        return RankingEvidence(outcomes=plain, comparisons=None, compared_by="the checks" if judged else "")
    verdicts = judged.verdicts.filter(pl.col("judge") == use).drop("judge")
    return RankingEvidence(outcomes=plain, comparisons=verdicts, compared_by=f"the judge {use}")


def _used(experiment: Mapping[str, Any]) -> str:
    """The first judge, where the experiment does not say."""
    chosen = experiment.get("ranking", {}).get("use")
    judges = experiment.get("judges", [])
    return str(chosen or (judges[0]["name"] if judges else "checks"))
