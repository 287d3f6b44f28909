"""Kinds that an outside file names: found and built, with errors that a person can act on.

    KindInvalid              a kind that does not exist, or a parameter that it does not take or lacks
    ├── StrategyInvalid      (workers.strategies)
    └── CheckInvalid         (workers.checks)

The messages say what is wrong and what is allowed; whoever reads the file adds its name and line.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Built = TypeVar("Built", bound=BaseModel)

_SHOWN_CHARS = 80


class KindInvalid(ValueError):
    """What the file asks for is not on offer."""

    noun: ClassVar[str] = "thing"
    """What the kinds are kinds of."""


def build(
    kinds: Mapping[str, type[Built]], kind: str, params: Mapping[str, Any], invalid: type[KindInvalid]
) -> Built:
    """The model of this kind with these parameters; `invalid` is raised with what to change."""
    if kind not in kinds:
        raise invalid(
            f"unknown {invalid.noun} kind {kind!r}{nearest(kind, kinds)}; kinds: {', '.join(kinds)}"
        )
    model = kinds[kind]
    try:
        return model.model_validate(dict(params))
    except ValidationError as error:
        complaints = [_complaint(model, detail) for detail in error.errors(include_url=False)]
        raise invalid(f"{invalid.noun} kind {kind!r}: {'; '.join(complaints)}") from None


def nearest(name: str, names: Iterable[str]) -> str:
    """`, did you mean '…'?` when one of the names is close, else nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def _complaint(model: type[BaseModel], detail: ErrorDetails) -> str:
    name = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        names = [field.alias or key for key, field in model.model_fields.items()]
        return f"unknown parameter {name!r}{nearest(name, names)}; parameters: {', '.join(names)}"
    if detail["type"] == "missing":
        return f"parameter {name!r} is missing"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{name} = {_shown(detail['input'])}: {message}" if name else message


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
