"""`paretoken db`: the schema."""

import typer

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback()
def _group() -> None:
    """The database of the runs."""


@app.command()
def upgrade() -> None:
    """Bring the database to this version's schema; does nothing where it is there.

    Example: PARETOKEN_DATABASE_URL=postgresql://… paretoken db upgrade
    """
    from db.migration import upgrade as bring_up
    from paretoken.services import own_services

    before, after = bring_up(own_services().database_url)
    typer.echo(
        f"The database is at revision {after}" + ("." if before == after else f" (was {before or 'empty'}).")
    )
