"""Ledger rows read quickly: a tenth of the time that `LedgerRow` takes, and never a row that it refuses.

The fields and their limits are those of `LedgerRow`. A line that is not plainly right goes to `LedgerRow`, which says
what is wrong with it, or accepts it: a time written in an unusual way, for instance.
"""

from collections.abc import Callable
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

import msgspec
from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, AwareDatetime
from pydantic.fields import FieldInfo
from pydantic.types import AllowInfNan

from db.ledger_row import EARLIEST, LATEST, LedgerRow, check_row, require_agreement

# `LedgerRow` allows JSON 200 levels; the other reader allows more.
_MOST_BRACKETS = 100
_NULL = "null"


def quick_type(annotation: Any, metadata: tuple[object, ...] = ()) -> Any:
    """The type by which msgspec checks what pydantic checks by this annotation."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *inside = get_args(annotation)
        return quick_type(inner, tuple(inside))
    if origin in (Union, UnionType):
        return Union[tuple(quick_type(part) for part in get_args(annotation))]  # noqa: UP007
    if annotation is Any:
        return msgspec.Raw
    meta = {name: value for part in metadata for name, value in limits(part).items()}
    if annotation is AwareDatetime:
        annotation, meta = datetime, {"tz": True}
    elif origin is list:
        annotation = list[quick_type(*get_args(annotation))]  # type: ignore[misc]
    return Annotated[annotation, msgspec.Meta(**meta)] if meta else annotation


def limits(limit: object) -> dict[str, Any]:
    """What a part of a field's metadata demands, by its name in msgspec."""
    match limit:
        case FieldInfo():
            return {name: value for part in limit.metadata for name, value in limits(part).items()}
        case Ge():
            return {"ge": limit.ge}
        case Le():
            return {"le": limit.le}
        case MinLen():
            return {"min_length": limit.min_length}
        case MaxLen():
            return {"max_length": limit.max_length}
        case AllowInfNan() | AfterValidator():
            return {}  # no JSON number of msgspec is infinite; `_plainly_right` checks times and `usage`
    raise TypeError(f"{limit!r}: a limit of LedgerRow that no quick check knows")


def _fields() -> list[tuple[str, Any, Any]]:
    fields = []
    for name, field in LedgerRow.model_fields.items():
        kind = quick_type(field.annotation, tuple(field.metadata))
        default = msgspec.NODEFAULT if field.is_required() else field.default
        if kind is msgspec.Raw:
            default = msgspec.Raw(_NULL.encode())
        fields.append((name, kind, msgspec.field(name=field.alias, default=default)))
    return fields


_QuickRow = msgspec.defstruct("_QuickRow", _fields(), forbid_unknown_fields=True, kw_only=True, gc=False)
NOT_PLAIN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
read_plain: Callable[[bytes], Any] = msgspec.json.Decoder(_QuickRow).decode
"""A row with the types and limits of `LedgerRow`, its `usage` as `msgspec.Raw`; or one of the errors `NOT_PLAIN`."""
_read_any = msgspec.json.Decoder().decode
_Usage = msgspec.defstruct("_Usage", [("usage", msgspec.Raw, msgspec.Raw(_NULL.encode()))])


CheckedRow = tuple[int, bytes, LedgerRow]
"""Where it stands in its file, its JSON as Postgres takes it, and the row, which is right by itself."""


def read_row(line: bytes, place: Callable[[int], str], number: int) -> LedgerRow:
    """What has the fields of the row that stands in this JSON text; its `usage` is JSON text, as it was, or None.

    Raises:
        LedgerInvalid: `place(number)` (file and line), the field, and what it may hold.
    """
    try:
        row = read_plain(line)
        if _plainly_right(row):
            return cast(LedgerRow, row)
    except NOT_PLAIN:
        pass
    checked = check_row(line, place, number)
    usage = msgspec.json.decode(line, type=_Usage).usage  # type: ignore[attr-defined]
    said = {name: getattr(checked, name) for name in LedgerRow.model_fields}
    return cast(LedgerRow, _QuickRow(**said | {"usage": usage_text(usage)}))


def _plainly_right(row: Any) -> bool:
    """Check what no type says, and make a text of `usage`."""
    # The earliest may have been rounded up to.
    if not EARLIEST < row.started_at <= LATEST:
        return False
    if row.finished_at is not None and not EARLIEST < row.finished_at <= LATEST:
        return False
    row.usage = usage_text(row.usage)
    if row.usage is not None:
        require_plain_json(row.usage)
    try:
        require_agreement(row)
    except ValueError:
        return False
    return True


def require_plain_json(text: str) -> None:
    """Raise one of `NOT_PLAIN` unless it is JSON, not deep, with numbers that a float can hold."""
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise msgspec.DecodeError("perhaps too deep")
    _read_any(text)


def usage_text(usage: msgspec.Raw) -> str | None:
    """JSON as it stood there; null is None."""
    text = str(usage, "utf-8")
    return None if text == _NULL else text
