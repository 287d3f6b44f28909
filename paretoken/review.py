"""`paretoken review`: a person decides on the trials that no rule could decide."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from paretoken.errors import InputError
from paretoken.reporting import RunId

if TYPE_CHECKING:
    from db.connection import Connection
    from db.review import ReviewedTrial

_CHOICES = {"p": "pass", "f": "fail", "s": "skip", "q": "quit"}


class Verdict(StrEnum):
    """What a person can decide."""

    passed = "pass"
    failed = "fail"


def review(
    run_id: RunId,
    trial: Annotated[int | None, typer.Option("--trial", help="Decide on this trial only.")] = None,
    verdict: Annotated[Verdict | None, typer.Option("--verdict", help="The decision on --trial.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="List the trials as JSON, decide nothing.")] = False,
) -> None:
    """Show the trials that wait for a person, one by one, and take pass, fail or skip.

    Example: paretoken review arena --trial 17 --verdict pass
    """
    from db import connection as database
    from db.review import trials_in_review
    from db.runs import find_run
    from paretoken.services import migrated_database

    if (trial is None) != (verdict is None):
        raise InputError("--trial and --verdict go together: name both, or neither to be asked.")
    with migrated_database() as database_url, database.connect(database_url) as connection:
        run = find_run(connection, run_id)["id"]
        waiting = trials_in_review(connection, run=run)
        if as_json:
            typer.echo(json.dumps([_row(one) for one in waiting], indent=2))
        elif trial is not None and verdict is not None:
            chosen = next((one for one in waiting if one.trial == trial), None)
            if chosen is None:
                ids = ", ".join(str(one.trial) for one in waiting[:10]) or "none"
                raise InputError(f"Trial {trial} of run {run_id!r} is not in review. In review are: {ids}.")
            _decide(connection, run, chosen, verdict)
        else:
            _ask(connection, run_id, run, waiting)


def _row(one: "ReviewedTrial") -> dict[str, object]:
    row = asdict(one)
    return {"trial": row.pop("trial"), "try": row.pop("try_"), **row}


def _ask(connection: "Connection", run_id: str, run: int, waiting: "Sequence[ReviewedTrial]") -> None:
    from analysis.safetext import terminal_text

    if not waiting:
        typer.echo(f"No trial of run {run_id} waits for a person.")
        return
    decided = 0
    for number, one in enumerate(waiting, start=1):
        typer.echo(f"\n{number} of {len(waiting)}")
        typer.echo(terminal_text("\n".join(_described(one))))
        choice = _choice(may_pass=one.answer is not None)
        if choice == "quit":
            break
        if choice != "skip":
            _decide(connection, run, one, Verdict(choice))
            decided += 1
    typer.echo(f"\n{decided} of {len(waiting)} decided. The report takes it in: paretoken report {run_id}")


def _described(one: "ReviewedTrial") -> Iterator[str]:
    yield f"Trial {one.trial}: task {one.task_id}, strategy {one.strategy}, repeat {one.repeat}, try {one.try_}"
    yield f"Why: {one.reason or 'not said'}"
    yield from _block("Goal", one.goal)
    if one.reference is not None:
        reference = one.reference
        yield from _block("Reference", reference if isinstance(reference, str) else json.dumps(reference))
    if one.answer is not None:
        yield from _block("Answer", one.answer)
    else:
        yield from _block("No answer; the last text was", one.last_text or "")
    for check in one.checks or ():
        found = "passed" if check["passed"] else "failed"
        yield f"Check {check['kind']} {found} (try {check['try']}): {check['message']}"
        if not check["passed"] and check["seen"] is not None:
            yield from _block("  It saw", json.dumps(check["seen"], ensure_ascii=False))


def _block(title: str, text: str) -> Iterator[str]:
    yield f"{title}:"
    yield from (f"    {line}" for line in text.splitlines())


def _choice(*, may_pass: bool) -> str:
    """pass, fail, skip or quit; quit at the end of input."""
    choices = [word for word in _CHOICES.values() if may_pass or word != "pass"]
    while True:
        try:
            given = str(typer.prompt(" / ".join(choices), prompt_suffix="? ")).strip().lower()
        except typer.Abort:
            return "quit"
        word = _CHOICES.get(given, given)
        if word in choices:
            return word


def _decide(connection: "Connection", run: int, one: "ReviewedTrial", verdict: Verdict) -> None:
    from db.review import decide

    if verdict is Verdict.passed and one.answer is None:
        raise InputError(f"Trial {one.trial} has no answer that could pass. Say fail, or try it again.")
    if not decide(connection, run=run, trial=one.trial, passed=verdict is Verdict.passed):
        raise InputError(f"Trial {one.trial} is not in review any more: somebody has decided it meanwhile.")
    typer.echo(f"Trial {one.trial}: {verdict.value}.")
