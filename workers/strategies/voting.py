"""Majority votes over answers that say the same thing in different spelling."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import Any, Literal

from workers.fences import unfenced

_NUMBER_MAX_CHARS = 60
_NUMBER = re.compile(
    r"""(?P<sign>[-+]?)\s*(?P<currency>[$€£¥]?)\s*
    (?P<digits>(?:\d{1,3}(?:[,_'\u00a0\u2009\u202f]\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?P<exponent>e[-+]?\d{1,3})?
    \s*(?P<unit>[^\d\s.,;:!?()][^\d]{0,30})?""",
    re.VERBOSE | re.IGNORECASE,
)
_GROUPING = re.compile(r"[,_'\u00a0\u2009\u202f]")
_EMPHASIS = ("**", "__", "`", "*", '"', "'", "“", "”")

UNITS = {
    "percent": "%", "per cent": "%", "pct": "%",
    "dollar": "$", "usd": "$", "euro": "€", "eur": "€", "gbp": "£",
    "gram": "g", "gramme": "g", "kilogram": "kg", "kilo": "kg", "milligram": "mg",
    "millimetre": "mm", "millimeter": "mm", "centimetre": "cm", "centimeter": "cm",
    "metre": "m", "meter": "m", "kilometre": "km", "kilometer": "km",
    "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h", "millisecond": "ms",
}  # fmt: skip
"""Spelling of a unit, lower case and singular -> its sign. A unit that is not here stands for itself."""


@dataclass(frozen=True, kw_only=True)
class Normal:
    """An answer without its accidents of spelling: equal answers have equal normal forms."""

    form: Literal["empty", "number", "json", "text"]
    value: str = ""
    unit: str = ""
    """Of a number; empty when it was given without one."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    """One group of equal answers."""

    answer: str
    """As the first of the group spelled it."""
    samples: Sequence[int]
    """Who gave it, from 1."""
    weight: float


def majority(answers: Sequence[str], weights: Sequence[float] | None = None) -> Sequence[Vote]:
    """Group equal answers, heaviest first, ties by first seen; the winner is the first vote.

    Each answer weighs 1 unless `weights` says otherwise. Empty answers have no vote unless all are empty.
    """
    if not answers:
        raise ValueError("no answers to vote on")
    normals = with_units([normalise(answer) for answer in answers])
    groups: dict[Normal, list[int]] = {}
    for index, normal in enumerate(normals):
        groups.setdefault(normal, []).append(index)
    if len(groups) > 1:
        groups.pop(Normal(form="empty"), None)
    weighed = list(weights) if weights is not None else [1.0] * len(answers)
    votes = [
        Vote(answer=answers[group[0]], samples=[i + 1 for i in group], weight=sum(weighed[i] for i in group))
        for group in groups.values()
    ]
    return sorted(votes, key=lambda vote: -vote.weight)


def votes_detail(votes: Sequence[Vote]) -> list[dict[str, Any]]:
    """The votes as JSON types, to be stored with the answer."""
    return [{"answer": v.answer, "samples": list(v.samples), "weight": v.weight} for v in votes]


def with_units(normals: Sequence[Normal]) -> Sequence[Normal]:
    """Give a number without a unit the unit of the equal numbers beside it, where those agree on one.

    `39` votes with `39 penguins`; beside `39 g` and `39 kg` it stays alone.
    """
    units: dict[str, set[str]] = {}
    for normal in normals:
        if normal.form == "number" and normal.unit:
            units.setdefault(normal.value, set()).add(normal.unit)
    only = {value: next(iter(found)) for value, found in units.items() if len(found) == 1}
    return [
        replace(normal, unit=only.get(normal.value, ""))
        if normal.form == "number" and not normal.unit
        else normal
        for normal in normals
    ]


def normalise(answer: str) -> Normal:
    """The answer as a number with its unit, as JSON, or as text without case, blanks and trailing dot."""
    text = _undressed(answer)
    if not text:
        return Normal(form="empty")
    return _number(text) or _json(text) or Normal(form="text", value=" ".join(text.casefold().split()))


def _undressed(answer: str) -> str:
    """Without code fence, emphasis, quotes and trailing dot."""
    text = unfenced(answer)
    for _ in range(3):  # a few layers are human; stripping without end would be quadratic
        text = text.rstrip(".").strip()
        for mark in _EMPHASIS:
            if text.startswith(mark) and text.endswith(mark) and len(text) > 2 * len(mark):
                text = text[len(mark) : -len(mark)].strip()
    return text


def _number(text: str) -> Normal | None:
    if len(text) > _NUMBER_MAX_CHARS:
        return None
    found = _NUMBER.fullmatch(text.replace("\u2212", "-"))
    if not found:
        return None
    with localcontext() as context:
        context.prec = _NUMBER_MAX_CHARS
        digits = _GROUPING.sub("", found["digits"])
        value = Decimal(f"{found['sign']}{digits}{found['exponent'] or ''}").normalize()
    unit = found["currency"] or _unit(found["unit"] or "")
    return Normal(form="number", value=str(value if value else 0), unit=unit)


def _unit(spelling: str) -> str:
    name = " ".join(spelling.casefold().split())
    singular = name.removesuffix("s") if len(name) > len("sec") else name
    return UNITS.get(singular, singular)


def _json(text: str) -> Normal | None:
    if text[0] not in "{[":
        return None
    try:
        value = json.loads(text, parse_float=_whole_as_int)
        canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):  # RecursionError: thousands of open brackets
        return None
    return Normal(form="json", value=canonical)


def _whole_as_int(digits: str) -> float | int:
    value = float(digits)
    return int(value) if value.is_integer() else value
