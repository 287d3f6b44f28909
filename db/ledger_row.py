"""One row of the ledger: its fields by their documented names, with what each may hold.

`LedgerRow` reads rows from outside and says what is wrong with them; `COLUMNS` holds the same fields as column types.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from db.errors import LedgerInvalid

_SHOWN_CHARS = 60

Name = Annotated[str, Field(min_length=1)]
Number = Annotated[int, Field(ge=1, le=2**15 - 1)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class LedgerRow(BaseModel):
    """One HTTP attempt that has an outcome. A field with a default may be missing or null: it is unknown then."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    run_id: Name
    source_platform: Name
    task_id: Name
    strategy: Name
    repeat: Annotated[int, Field(ge=1, le=2**31 - 1)]
    round: Number
    """Stage of the trial, from 1."""
    sample: Number
    """Slot in the stage, from 1."""
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
    kind: Literal["generation"]
    purpose: Literal["first", "retry", "rerun"]
    retry_reason: str | None = None
    used: bool
    """Whether the trial uses this answer; at most one attempt of a job is."""
    http_status: Annotated[int, Field(ge=100, le=999)] | None = None
    response_id: str | None = None
    first_byte_ms: Count | None = None
    finish_reason: str | None = None
    usage: Any = None
    """What the gateway reported, as it did."""
    cost_usd: Cost | None = None
    worker: Name
    started_at: AwareDatetime
    finished_at: AwareDatetime | None = None


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
"""The ledger as a table; `usage` is JSON in a text."""


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
    shown = repr(detail["input"])
    if len(shown) > _SHOWN_CHARS:
        shown = shown[:_SHOWN_CHARS] + "…"
    return f"{field}: {detail['msg']} (found {shown})."
