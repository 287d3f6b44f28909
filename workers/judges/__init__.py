"""Judges by kind. A new kind is one file with one `Judge` class, and its line in `KINDS`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from workers.judges.base import FRAME_BYTES, Judge, JudgeInvalid, Reading, Verdict
from workers.judges.listwise import Listwise
from workers.judges.pairwise import Pairwise
from workers.judges.rubric import Rubric
from workers.kinds import build

__all__ = [
    "FRAME_BYTES",
    "KINDS",
    "Judge",
    "JudgeInvalid",
    "Pairwise",
    "Reading",
    "Verdict",
    "draw_of",
    "judge",
]

KINDS: Mapping[str, type[Judge]] = MappingProxyType(
    {model.kind: model for model in (Pairwise, Listwise, Rubric)}
)


def judge(kind: str, params: Mapping[str, Any]) -> Judge:
    """The judge of this kind with these parameters; a `None` leaves the kind's default.

    Raises:
        JudgeInvalid: what to change.
    """
    given = {name: value for name, value in params.items() if value is not None}
    return build(KINDS, kind, given, JudgeInvalid)


def draw_of(*, seed: int | None, task_id: str, repeat: int, judge: str) -> str:
    """What decides the orders of a judging: the same in every run of an experiment."""
    return f"{seed or 0}:{task_id}:{repeat}:{judge}"
