"""`python -m paretoken.simulator`: the simulated gateway in a process of its own."""

import sys

import typer

from paretoken.errors import ParetokenError
from paretoken.simulator.cli import app


def main() -> None:
    try:
        app()
    except ParetokenError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
