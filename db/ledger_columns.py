"""Ledger rows checked many at a time, as the columns of a table: what is plainly right needs no look at each row."""

from functools import cache
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import polars as pl

from db.ledger_reader import limits, quick_type, require_plain_json
from db.ledger_row import COLUMNS, EARLIEST, JSON_COLUMNS, LATEST, LedgerRow, require_agreement
from db.text import MARK

_read_names = msgspec.json.Decoder(quick_type(LedgerRow.model_fields["winner"].annotation)).decode


def plainly_right(table: pl.DataFrame) -> bool:
    """Whether `LedgerRow` accepts every row, and no text in it is written otherwise in the database.

    False may mean that it does: then each row is looked at.
    """
    if dict(table.schema) != dict(COLUMNS) or not all(table.select(**_rules()).row(0)):
        return False
    try:
        for usage in table["usage"].drop_nulls().unique():
            require_plain_json(usage)
        for strategy, kind, *said in (
            table.select("strategy", "kind", "winner", "opponent").unique().iter_rows()
        ):
            winner, opponent = (None if text is None else _read_names(text) for text in said)
            row: Any = SimpleNamespace(strategy=strategy, kind=kind, winner=winner, opponent=opponent)
            require_agreement(row)
    except (ValueError, RecursionError):  # msgspec's and Unicode's errors too
        return False
    return True


@cache
def _rules() -> dict[str, pl.Expr]:
    rules = {}
    for name, field in LedgerRow.model_fields.items():
        column = field.alias or name
        right = (
            [] if column in JSON_COLUMNS else _right(pl.col(column), field.annotation, tuple(field.metadata))
        )
        if field.is_required():
            right.append(pl.col(column).is_not_null())
        if COLUMNS[column] == pl.String:
            right.append(~pl.col(column).str.contains_any([MARK, "\0"]))
        if column in JSON_COLUMNS:
            right.append(~pl.col(column).str.contains("\\u", literal=True))
            # As a text of JSON it is no value.
            right.append(pl.col(column).str.strip_chars() != "null")
        rules[column] = pl.all_horizontal(right).fill_null(True).all() if right else pl.lit(True)
    return rules


def _right(column: pl.Expr, annotation: Any, metadata: tuple[object, ...]) -> list[pl.Expr]:
    """What a value has to be that is not null."""
    if get_origin(annotation) in (Union, UnionType):
        # Only None stands beside a type in these columns.
        return [rule for part in get_args(annotation) for rule in _right(column, part, ())]
    if get_origin(annotation) is Annotated:
        inner, *inside = get_args(annotation)
        return _right(column, inner, tuple(inside))
    if get_origin(annotation) is Literal:
        return [column.is_in(list(get_args(annotation)))]
    rules = [column.is_finite()] if annotation is float else []
    made = {
        "ge": lambda limit: column >= limit,
        "le": lambda limit: column <= limit,
        "min_length": lambda limit: column.str.len_chars() >= limit,
        "max_length": lambda limit: column.str.len_chars() <= limit,
    }
    rules += [made[name](limit) for part in metadata for name, limit in limits(part).items()]
    if annotation not in (str, int, float, bool, type(None)):
        # The earliest may have been rounded up to.
        rules.append(column.is_between(EARLIEST, LATEST, closed="right"))
    return rules
