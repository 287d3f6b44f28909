"""docs/cli.md, made from the commands' own help. `python -m tests.documents` writes it; a test compares it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from paretoken.cli import COMMANDS, app

CLI = Path(__file__).parents[1] / "docs" / "cli.md"

HEAD = """# Commands

What `--help` says, command by command; a test compares this page with the program.

Exit codes: 0 done; 1 the work failed (a server does not answer, trials ended without an answer); 2 the input cannot be
used; 130 interrupted. Errors go to standard error in one line, results to standard output.
"""


def cli_page() -> str:
    """The whole page."""
    return HEAD + "".join(f"\n## {' '.join(path)}\n\n```text\n{_help(path[1:])}```\n" for path in _paths())


def _paths() -> Iterator[list[str]]:
    yield ["paretoken"]
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        yield ["paretoken", name]
        for inner in getattr(group.get_command(None, name), "commands", {}):
            yield ["paretoken", name, inner]


def _help(arguments: list[str]) -> str:
    shown = CliRunner().invoke(app, [*arguments, "--help"], prog_name="paretoken", env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    return shown.output.lstrip()


if __name__ == "__main__":
    os.umask(0o022)
    CLI.write_text(cli_page())
