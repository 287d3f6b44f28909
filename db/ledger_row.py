"""One row of the ledger: its fields by their documented names, with what each may hold.

`LedgerRow` reads rows from outside and says what is wrong with them; `COLUMNS` holds the same fields as column types.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from db.errors import LedgerInvalid

_SHOWN_CHARS = 60

# In UTC and in any other zone these and all times between them can be shown, by this program and by others.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9998, 12, 31, tzinfo=UTC)


def _between(time: datetime) -> datetime:
    if not EARLIEST <= time <= LATEST:
        raise ValueError(
            f"a time from {EARLIEST:%Y-%m-%d} to {LATEST:%Y-%m-%d} in UTC, found {time.isoformat()}"
        )
    return time


def _finite(value: Any) -> Any:
    """JSON without NaN and without numbers that no float holds, which the database refuses or rounds to infinity."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"every number in it is finite and below 1.8e308, found {value}")
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            if isinstance(part, float | dict | list):
                _finite(part)
    return value


# The lengths are those of an experiment file.
Name = Annotated[str, Field(min_length=1, max_length=200)]
StrategyName = Annotated[str, Field(min_length=1, max_length=100)]
StrategyNames = Annotated[list[StrategyName], Field(min_length=2)]
Number = Annotated[int, Field(ge=1, le=2**15 - 1)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Cost = Annotated[float, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)]
Time = Annotated[AwareDatetime, AfterValidator(_between)]


class LedgerRow(BaseModel):
    """One HTTP attempt that has an outcome. A field with a default may be missing or null: it is unknown then."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    run_id: Name
    source_platform: Name
    task_id: Name
    strategy: StrategyName | None = None
    """None for the call of a judge, which is nobody's."""
    repeat: Annotated[int, Field(ge=1, le=2**31 - 1)]
    round: Number
    """Stage of the trial, from 1; of a judge: which judging of the task and repeat."""
    sample: Number
    """Slot in the stage, from 1; of a judge: which call of the judging."""
    attempt: Number
    """HTTP attempt of this job (task, strategy, repeat, try, round, sample), from 1."""
    model: Name
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    """Part of `input_tokens`."""
    reasoning_tokens: Count | None = None
    """Part of `output_tokens`."""
    latency_ms: Count | None = None
    status: Literal["ok", "error", "unknown"]
    error: str | None = None
    """Class of the error, e.g. `rate_limit`."""
    content: str | None = None
    try_: Number = Field(alias="try")
    """2, 3, … for reruns of the trial."""
    turn: Number
    """Turn of an agent that makes its own calls; else 1."""
    kind: Literal["generation", "judge"]
    purpose: Literal["first", "retry", "rerun"]
    retry_reason: str | None = None
    used: bool
    """Whether the trial uses this answer; at most one attempt of a job is."""
    http_status: Annotated[int, Field(ge=100, le=999)] | None = None
    response_id: str | None = None
    first_byte_ms: Count | None = None
    finish_reason: str | None = None
    usage: Annotated[Any, AfterValidator(_finite)] = None
    """What the gateway reported, as it did."""
    cost_usd: Cost | None = None
    worker: Name
    started_at: Time
    finished_at: Time | None = None
    winner: StrategyName | StrategyNames | None = None
    """Of each verdict on the trial: a strategy, or `tie`; a list where there are several."""
    opponent: StrategyName | StrategyNames | None = None
    """Whom the trial was compared with, in the same order."""

    @model_validator(mode="after")
    def _agrees(self) -> "LedgerRow":
        require_agreement(self)
        return self


TIE = "tie"


def require_agreement(row: LedgerRow) -> None:
    """Raise `ValueError` where fields that are right by themselves contradict each other."""
    if row.winner is None and row.opponent is None and row.strategy and row.kind == "generation":
        return  # nearly all rows
    if (row.strategy is None) != (row.kind == "judge"):
        raise ValueError(
            "strategy: missing; every row but a judge's has one"
            if row.strategy is None
            else "strategy: the call of a judge belongs to none"
        )
    winners, opponents = _listed(row.winner), _listed(row.opponent)
    if type(row.winner) is not type(row.opponent) or len(winners) != len(opponents):
        raise ValueError("winner: as many names as opponent has, or both empty")
    for winner, opponent in zip(winners, opponents, strict=True):
        if row.strategy is None:
            raise ValueError("winner: the call of a judge was not judged itself")
        if winner not in (row.strategy, opponent, TIE) or opponent == row.strategy:
            raise ValueError(f"winner: the row's strategy, its opponent or '{TIE}', found {winner!r}")


def _listed(names: str | list[str] | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else names


FIELDS = tuple(field.alias or name for name, field in LedgerRow.model_fields.items())

ColumnType = pl.DataType | type[pl.DataType]


def _column_type(field: str) -> ColumnType:
    match field:
        case "used":
            return pl.Boolean
        case "cost_usd":
            return pl.Float64
        case "started_at" | "finished_at":
            return pl.Datetime("us", "UTC")
        case "repeat" | "round" | "sample" | "attempt" | "try" | "turn" | "http_status":
            return pl.Int64
    return pl.Int64 if field.endswith(("_tokens", "_ms")) else pl.String


COLUMNS: Mapping[str, ColumnType] = {field: _column_type(field) for field in FIELDS}
"""The ledger as a table."""

JSON_COLUMNS = ("usage", "winner", "opponent")
"""JSON in a text."""


def check_row(line: bytes, place: Callable[[int], str], number: int) -> LedgerRow:
    """The row that stands in this JSON text.

    Raises:
        LedgerInvalid: `place(number)` (file and line), the field, and what it may hold.
    """
    try:
        return LedgerRow.model_validate_json(line)
    except ValidationError as error:
        raise LedgerInvalid(f"{place(number)}: {_complaint(error.errors(include_url=False)[0])}") from None


def _complaint(detail: ErrorDetails) -> str:
    field = ".".join(str(part) for part in detail["loc"])
    match detail["type"]:
        case "json_invalid":
            return f"not JSON: {detail['ctx']['error'].replace(' at line 1 ', ' at ')}."
        case "model_type":
            return "a row is a JSON object with the ledger's fields."
        case "missing":
            return f"{field}: missing; every row has one."
        case "extra_forbidden":
            near = get_close_matches(field, FIELDS, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            return f"{field}: no field of the ledger. {hint}Allowed: {', '.join(FIELDS)}."
        case "value_error":
            said = detail["msg"].removeprefix("Value error, ")
            return f"{field}: {said}." if field else f"{said}."
    # Of a field that may be a name or a list of names the branch that failed says nothing.
    field = str(detail["loc"][0])
    shown = repr(detail["input"])
    if len(shown) > _SHOWN_CHARS:
        shown = shown[:_SHOWN_CHARS] + "…"
    return f"{field}: {detail['msg']} (found {shown})."
