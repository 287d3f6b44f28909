"""The command line: which commands there are, and how errors end. Each command stands in its own module.

Modules are imported when their command is called, so that `paretoken --help` stays quick.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

_EXIT_INTERRUPTED = 130

# Command -> (module, object in it, one line for the overview). The object is a typer app, or a function for one.
COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "demo": ("paretoken.running", "demo", "Run the arena example on a simulated gateway, start to end."),
    "run": ("paretoken.running", "run", "Run an experiment, or continue it, and report."),
    "status": ("paretoken.status", "status", "Say how far a run is and what it waits for."),
    "pause": ("paretoken.control", "pause", "Stop a run for now."),
    "resume": ("paretoken.control", "resume", "Let a paused run go on."),
    "cancel": ("paretoken.control", "cancel", "End a run for good."),
    "retry": ("paretoken.control", "retry", "Try failed trials of a run again."),
    "report": ("paretoken.reporting", "report", "Write a run's tables."),
    "export": ("paretoken.ledger", "export", "Write a run's ledger as JSON Lines."),
    "import": ("paretoken.ledger", "import_", "Read a ledger file into the database."),
    "scheduler": ("paretoken.processes", "scheduler", "Feed the workers of all runs."),
    "worker": ("paretoken.processes", "worker", "Make the calls; start as many as wanted."),
    "db": ("paretoken.database", "app", "The database: bring it to this version's schema."),
    "servers": ("paretoken.servers.cli", "app", "The embedded PostgreSQL and Valkey."),
    "gateway": ("paretoken.gateway", "app", "A simulated gateway for demos and tests."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        return _command(cmd_name, getattr(importlib.import_module(module), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No command is named {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


def _command(name: str, found: Any) -> click.Command:
    import typer

    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(name)(found)
    command: Any = typer.main.get_command(app)
    command.name = name
    return command  # type: ignore[no-any-return]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["--help", "-h"]})
@click.version_option(package_name="paretoken", prog_name="paretoken")
def cli() -> None:
    """How much skill does each extra 1,000 tokens of test-time compute buy, and which strategies are worth it?

    Start with: paretoken demo
    """


def main() -> None:
    """Run the command; a user's mistake ends in one line and exit code 2, failed work in one line and 1."""
    try:
        code = cli(prog_name="paretoken", standalone_mode=False)
    except click.exceptions.Exit as end:
        code = end.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("Interrupted.")
        code = _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing is wrong, and nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        known = _exit_code(error)
        if known is None:
            raise
        _say(f"Error: {error}")
        code = known
    sys.exit(code if isinstance(code, int) else 0)


def _exit_code(error: Exception) -> int | None:
    """2 for what the user gave, 1 for what failed; None for an error of our own, which keeps its traceback."""
    from analysis.errors import AnalysisError
    from db.errors import DatabaseError, DatabaseUnreachable
    from paretoken.errors import ParetokenError
    from scheduler.errors import BrokerUnreachable, SchedulerError
    from workers.errors import WorkerError

    if isinstance(error, ParetokenError):
        return error.exit_code
    if isinstance(error, DatabaseUnreachable | BrokerUnreachable):
        return 1
    if isinstance(error, AnalysisError | DatabaseError | SchedulerError | WorkerError):
        return 2
    return None


def _say(text: str) -> None:
    from analysis.safetext import terminal_text

    click.echo(terminal_text(text), err=True)
