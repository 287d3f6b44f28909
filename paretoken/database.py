"""`paretoken db`: the schema, the auditor's role, and runs that leave the database."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paretoken.errors import InputError, RunFailed
from paretoken.reporting import RunId

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


@app.command("grant-auditor")
def grant_auditor() -> None:
    """Make the role paretoken_auditor, which can read everything and change nothing; `db upgrade` tries it too.

    Example: paretoken db grant-auditor
    """
    from db import connection as database
    from db.auditor import grant_auditor as grant
    from paretoken.services import readable_database

    with readable_database() as database_url, database.connect(database_url) as connection:
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
    from paretoken.services import readable_database

    if out.exists():
        raise InputError(f"{out}: is there already. Name a file that is not.")
    with readable_database() as database_url, database.connect(database_url) as connection:
        write_ledger(connection, run_id, out)
        calls = _delete(connection, run_id, out)
    typer.echo(f"{calls:,} calls of run {run_id} are in {out} and no more in the database.")


def _delete(connection: "Connection", run_id: str, path: Path) -> int:
    import psycopg

    from db.archive import archive_run, verified

    try:
        return archive_run(connection, verified(connection, path, run_id=run_id))
    except (psycopg.errors.RestrictViolation, psycopg.errors.InsufficientPrivilege) as error:
        path.unlink()
        raise RunFailed(f"{error.diag.message_primary} The run is as it was.") from None
