"""`paretoken audit`: does a run's ledger hold together, and does it agree with the provider's bill?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from analysis.wording import counted
from paretoken.errors import InputError
from paretoken.reporting import RunId

if TYPE_CHECKING:
    from db.audit import Audit
    from paretoken.explanation import Amount
    from paretoken.reconciliation import Line, Reconciliation

# Less than the six digits that are shown.
_SHOWN_USD = 5e-7
_CALL_PLACE = ("task_id", "strategy", "repeat", "try", "round", "sample", "attempt")


def audit(
    run_id: RunId,
    *,
    bill: Annotated[
        list[Path] | None,
        typer.Option("--bill", help="The provider's usage export, a CSV file; may be given often."),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(help="The bill's own column names: date=Day,requests=Count,cost_usd=Amount."),
    ] = "",
    models: Annotated[
        str, typer.Option(help="The bill's model names as the ledger has them: gpt-4o-2024-08-06=gpt-4o.")
    ] = "",
    timezone: Annotated[str, typer.Option(help="Whose days the bill's dates are.")] = "UTC",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for a script.")] = False,
) -> None:
    """Check a run's ledger, and compare it with bills; exit code 1 where a check fails or a bill differs.

    A bill has the columns date, model, requests, input_tokens, output_tokens and optionally cost_usd.

    Example: paretoken audit arena --bill november.csv --columns date=Day,cost_usd=Amount
    """
    from db import connection as database
    from db.audit import audit_run
    from db.billable import billable
    from paretoken.reconciliation import reconcile
    from paretoken.services import migrated_database

    if not bill and (columns or models):
        option = "--columns" if columns else "--models"
        raise InputError(f"{option}: is about a bill, and none is given. Name one with --bill FILE.")
    charges = _charges(bill or [], columns, models, timezone)
    with migrated_database() as database_url, database.connect(database_url) as connection:
        found = audit_run(connection, run_id)
        compared = reconcile(charges, billable(connection, run_id, timezone=timezone)) if bill else None
    passed = found.passed and (compared is None or compared.passed)
    if as_json:
        typer.echo(json.dumps(_object(found, compared, passed), default=str, indent=2))
    else:
        _show([*_described(found), *(_compared(compared) if compared else ())])
    if not passed:
        raise typer.Exit(1)


def _charges(paths: Sequence[Path], columns: str, models: str, timezone: str) -> list[Any]:
    from paretoken.bills import names, read_bills

    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"--timezone: no time zone {timezone!r}. Name one such as UTC or Europe/Berlin."
        ) from None
    return list(
        read_bills(
            paths, columns=names(columns, "--columns"), models=names(models, "--models"), timezone=zone
        )
    )


def _object(found: "Audit", compared: "Reconciliation | None", passed: bool) -> dict[str, Any]:
    bill = None
    if compared is not None:
        lines = [asdict(line) for line in compared.lines]
        for line in lines:
            if not line["costs_compared"]:
                for side in ("bill", "ledger", "difference"):
                    line[side]["cost_usd"] = None
        bill = asdict(compared) | {"lines": lines, "passed": compared.passed}
    return {"passed": passed, **asdict(found), "bill": bill}


def _show(lines: Sequence[str]) -> None:
    from analysis.safetext import terminal_text

    for line in lines:
        typer.echo(terminal_text(line))


def _described(found: "Audit") -> Iterator[str]:
    simulated = " (simulated gateway)" if found.simulated else ""
    when = (
        f", {found.first_at:%Y-%m-%d %H:%M} to {found.last_at:%Y-%m-%d %H:%M} UTC" if found.first_at else ""
    )
    yield f"run {found.run_id}: {found.state}{simulated}, {counted(found.calls, 'call')}{when}"
    totals = found.totals
    yield (
        f"  {_number(totals['input_tokens'])} input and {_number(totals['output_tokens'])} output tokens; "
        f"{counted(totals['unknown_usage_calls'], 'call')} may have used more"
    )
    yield f"  {_usd(totals['cost_usd'])}; {counted(totals['unknown_cost_calls'], 'call')} without a known cost"
    yield "checks"
    for check in found.checks:
        yield f"  {'ok  ' if check.passed else 'FAIL'}  {check.name}: {check.says}"
        yield from (f"        {_place(example)}" for example in check.examples)
    yield from _table("calls by status", found.statuses, ("kind", "status"))
    yield from _table("by model", found.models, ("kind", "model"))
    yield from _table("errors and unknown outcomes", found.errors, ("status", "error", "http_status"))
    yield from _table("retries and reruns", found.retries, ("purpose", "retry_reason"))
    if found.unpriced_models:
        yield f"models without a price, whose cost is unknown: {', '.join(found.unpriced_models)}"
    yield from _calls("unknown outcomes, which may have been billed (the first ones)", found.unknown_outcomes)
    yield from _calls("duplicates: paid and not used (the first ones)", found.duplicates)
    yield from _table("most expensive tasks", found.tasks, ("task_id",))


def _table(title: str, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Iterator[str]:
    if not rows:
        return
    yield title
    for row in rows:
        name = " ".join(str(row[key]) for key in keys if row[key] is not None)
        unknown = f", {row['unknown_usage_calls']:,} of unknown usage" if row["unknown_usage_calls"] else ""
        yield (
            f"  {name}: {counted(row['calls'], 'call')}, {_number(row['total_tokens'])} tokens, "
            f"{_usd(row['cost_usd'])}{unknown}"
        )


def _calls(title: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if rows:
        yield title
    for row in rows:
        told = (
            f"{_number(row['total_tokens'])} tokens" if row["total_tokens"] is not None else "tokens unknown"
        )
        yield f"  {row['started_at']:%Y-%m-%d %H:%M:%S}  {_place(row)}: {row['model']}, {told}"


def _place(row: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key.removesuffix('_id')} {row[key]}" for key in _CALL_PLACE if row.get(key) is not None
    )


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _usd(value: float | None) -> str:
    return "cost unknown" if value is None else f"${value:,.6f}"


def _compared(compared: "Reconciliation") -> Iterator[str]:
    yield "the bill against the ledger"
    for line in compared.lines:
        day = f"{line.day:%Y-%m-%d}" if line.day else "all days"
        mark = "FAIL" if line.verdict == "differs" else "ok  "
        yield f"  {mark}  {day} {line.model}: {_verdict(line)}"
        yield from (f"        {reason}" for reason in line.because)
    if compared.left_out_lines:
        others = f", of models {', '.join(compared.left_out_models)}" if compared.left_out_models else ""
        yield (
            f"  left out: {counted(compared.left_out_lines, 'line')} of days or models that the run did not use, "
            f"{counted(compared.left_out_requests, 'request')}{others}"
        )
    if compared.left_out_runs:
        yield f"  not looked at: {counted(compared.left_out_runs, 'older run')} that may stand on this bill too"


def _verdict(line: "Line") -> str:
    if line.verdict == "equal":
        costs = f" and {_usd(line.bill.cost_usd)}" if line.costs_compared else "; costs not compared"
        return f"equal, {_amount(line.bill)}{costs}"
    parts = [
        f"{name} {getattr(line.difference, field):+,} "
        f"({getattr(line.bill, field):,} on the bill, {getattr(line.ledger, field):,} in the ledger)"
        for name, field in (
            ("requests", "requests"),
            ("input tokens", "input_tokens"),
            ("output tokens", "output_tokens"),
        )
        if getattr(line.difference, field)
    ]
    if line.costs_compared and abs(line.difference.cost_usd) > _SHOWN_USD:
        parts.append(
            f"USD {line.difference.cost_usd:+,.6f} ({line.bill.cost_usd:,.6f} on the bill, "
            f"{line.ledger.cost_usd:,.6f} in the ledger)"
        )
    return f"{line.verdict}: {'; '.join(parts)}"


def _amount(amount: "Amount") -> str:
    tokens = f"{amount.input_tokens:,} input and {amount.output_tokens:,} output tokens"
    return f"{counted(amount.requests, 'request')}, {tokens}"
