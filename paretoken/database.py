"""`paretoken db`: the schema, the auditor's role, and runs that leave the database."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.wording import counted
from paretoken.errors import InputError, RunFailed
from paretoken.reporting import RunId
from paretoken.settings import WORKER_PASSWORD

if TYPE_CHECKING:
    from db.connection import Connection

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)

_NO_ROLE = (
    "There is no role paretoken_auditor, and this user may not create roles. Let an administrator run "
    "CREATE ROLE paretoken_auditor NOLOGIN; and then: paretoken db grant-auditor"
)


@app.callback()
def _group() -> None:
    """The database of the runs."""


@app.command()
def upgrade() -> None:
    """Bring the database to this version's schema; does nothing where it is there.

    Where PARETOKEN_WORKER_PASSWORD is set, workers can log in as paretoken_worker
    with it: a role that can do what a run needs, and not change the ledger.

    Example: PARETOKEN_DATABASE_URL=postgresql://… paretoken db upgrade
    """
    from db import connection as database
    from db.auditor import auditor_can_read
    from db.migration import upgrade as bring_up
    from paretoken.services import own_services

    database_url = own_services().database_url
    before, after = bring_up(database_url)
    typer.echo(
        f"The database is at revision {after}" + ("." if before == after else f" (was {before or 'empty'}).")
    )
    with database.connect(database_url) as connection:
        if not auditor_can_read(connection):
            typer.echo(f"{_NO_ROLE}. Without it nothing but audits by other people is missing.")
        if password := os.environ.get(WORKER_PASSWORD, ""):
            _let_workers_in(connection, password)


def _let_workers_in(connection: "Connection", password: str) -> None:
    import psycopg

    from db.worker_role import ROLE, let_workers_in

    try:
        let_workers_in(connection, password)
    except psycopg.errors.InsufficientPrivilege as error:
        raise RunFailed(
            f"{WORKER_PASSWORD}: the role {ROLE} cannot be made ({error.diag.message_primary}). Let a user who "
            "owns the tables and may create roles upgrade, or unset it."
        ) from None
    typer.echo(f"Workers can log in as {ROLE}.")


@app.command("grant-auditor")
def grant_auditor() -> None:
    """Make the role paretoken_auditor, which can read everything and change nothing; `db upgrade` tries it too.

    Example: paretoken db grant-auditor
    """
    from db import connection as database
    from db.auditor import grant_auditor as grant
    from paretoken.services import migrated_database

    with migrated_database() as database_url, database.connect(database_url) as connection:
        if not grant(connection):
            raise RunFailed(f"{_NO_ROLE}.")
    typer.echo(
        "The role paretoken_auditor can read everything here. A login for a person: "
        "CREATE ROLE alice LOGIN PASSWORD '…' IN ROLE paretoken_auditor;"
    )


@app.command()
def archive(
    run_id: RunId,
    out: Annotated[Path, typer.Option("--out", help="File for the ledger: .parquet, .jsonl or .jsonl.gz.")],
) -> None:
    """Export a finished run's ledger, verify the file, and delete the run from the database.

    The file can be imported again. Goals, answers, checks and verdicts are not in it: write the report first.

    Example: paretoken db archive arena --out arena.parquet
    """
    from db import connection as database
    from paretoken.ledger import write_ledger
    from paretoken.services import migrated_database

    if out.exists() or out.is_symlink():
        raise InputError(f"{out}: is there already. Name a file that is not.")
    with migrated_database() as database_url, database.connect(database_url) as connection:
        write_ledger(connection, run_id, out)
        calls = _delete(connection, run_id, out)
    verb = "is" if calls == 1 else "are"
    typer.echo(f"{counted(calls, 'call')} of run {run_id} {verb} in {out} and no more in the database.")


def _delete(connection: "Connection", run_id: str, path: Path) -> int:
    import psycopg

    from db.archive import archive_run, verified

    try:
        return archive_run(connection, verified(connection, path, run_id=run_id))
    except (psycopg.errors.RestrictViolation, psycopg.errors.InsufficientPrivilege) as error:
        path.unlink()
        raise RunFailed(f"{error.diag.message_primary} The run is as it was.") from None
