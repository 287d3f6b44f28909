"""`paretoken gateway`: the simulated gateway as a command."""

import typer

from paretoken.simulator import cli as simulator

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)
app.add_typer(simulator.app)


@app.callback()
def _group() -> None:
    """A gateway that answers by itself, for demos and tests."""
