"""The command line: which commands there are, and how errors end. Each command stands in its own module.

Modules are imported when their command is called, so that `paretoken --help` stays quick.
"""

import errno
import importlib
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

_EXIT_INTERRUPTED = 130
# Of the disk and of whatever output leads to; any other one is a mistake of this program.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}

# Command -> (module, object in it, one line for the overview). The object is a typer app, or a function for one.
COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "demo": ("paretoken.running", "demo", "Run the arena example on a simulated gateway, start to end."),
    "doctor": ("paretoken.doctor.cli", "doctor", "Check key, gateway and servers, and say what to do."),
    "run": ("paretoken.running", "run", "Run an experiment, or continue it, and report."),
    "status": ("paretoken.status", "status", "Say how far a run is and what it waits for."),
    "pause": ("paretoken.control", "pause", "Stop a run for now."),
    "resume": ("paretoken.control", "resume", "Let a paused run go on."),
    "cancel": ("paretoken.control", "cancel", "End a run for good."),
    "retry": ("paretoken.control", "retry", "Try failed trials of a run again."),
    "review": ("paretoken.review", "review", "Decide on the trials that wait for a person."),
    "serve": ("paretoken.web.cli", "serve", "Look into runs with a browser, read-only."),
    "report": ("paretoken.reporting", "report", "Write a run's tables, charts and page."),
    "compare": ("paretoken.compare", "compare", "Say what changed from one run to another."),
    "analyze": ("paretoken.analyze", "analyze", "The same tables from files that you have."),
    "audit": ("paretoken.audit", "audit", "Check a run's ledger, and compare it with a bill."),
    "export": ("paretoken.ledger", "export", "Write a run's ledger as JSON Lines, CSV or Parquet."),
    "import": ("paretoken.ledger", "import_", "Read a ledger file into the database."),
    "clients": ("paretoken.clients.cli", "app", "Files for Claude Code, Codex and CC Switch."),
    "strategies": ("paretoken.catalogue", "strategies", "List the kinds of strategies and what they cost."),
    "scheduler": ("paretoken.processes", "scheduler", "Feed the workers of all runs."),
    "worker": ("paretoken.processes", "worker", "Make the calls; start as many as wanted."),
    "db": ("paretoken.database", "app", "The database: bring it to this version's schema."),
    "servers": ("paretoken.servers.cli", "app", "The embedded PostgreSQL and Valkey."),
    "gateway": ("paretoken.gateway", "app", "A simulated gateway for demos and tests."),
}


class Commands(TyperGroup):
    """The commands by name, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            near = get_close_matches(cmd_name, COMMANDS, n=1)
            ctx.fail(f"No command is named {cmd_name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        module, name, _ = COMMANDS[cmd_name]
        return _command(cmd_name, getattr(importlib.import_module(module), name))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


def _command(name: str, found: Any) -> Any:
    commands = found
    if not isinstance(found, typer.Typer):
        commands = typer.Typer(add_completion=False)
        commands.command(name)(found)
    # Plain help everywhere: it is read in logs and copied into the documentation too.
    commands.rich_markup_mode = None
    command = typer.main.get_command(commands)
    command.name = name
    return command


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"paretoken {version('paretoken')}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback()
def paretoken(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """How much skill does each extra 1,000 tokens of test-time compute buy, and which strategies are worth it?

    Start with: paretoken demo
    """


def main() -> None:
    """Run the command; a user's mistake ends in one line and exit code 2, failed work in one line and 1."""
    try:
        # What a command returns is no exit code; `typer.Exit` comes back as one.
        code = typer.main.get_command(app)(prog_name="paretoken", standalone_mode=False) or 0
        sys.stdout.flush()
    except typer.TyperException as error:
        _say(_usage(error))
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        code = _EXIT_INTERRUPTED
    except Exception as error:
        known = _exit_code(error)
        if known is None:
            raise
        _say(f"Error: {_message(error)}")
        _drop_output()
        code = known
    if code == _EXIT_INTERRUPTED:
        _say("Interrupted.")
    sys.exit(code)


def _drop_output() -> None:
    """Leave nothing for the interpreter to write at its end, which fails once more where writing has failed."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: typer.TyperException) -> str:
    """A wrong command line in one line; a group without a command says its whole help."""
    text = error.format_message()
    context: Any = getattr(error, "ctx", None)
    if context is None:
        return f"Error: {text}"
    if text.startswith("Usage:"):
        return text
    return f"Error: {text.rstrip('.')}. See: {context.command_path} --help"


def _exit_code(error: Exception) -> int | None:
    """2 for what the user gave, 1 for what failed; None for an error of our own, which keeps its traceback.

    A database that is not migrated counts as failed: the same command works once it is, so that a supervisor may
    start it again, while it would start a wrong one for ever.
    """
    import psycopg

    from analysis.errors import AnalysisError
    from db.errors import DatabaseError, DatabaseUnreachable, NotMigrated
    from paretoken.errors import ParetokenError
    from scheduler.errors import BrokerUnreachable, SchedulerError
    from workers.errors import WorkerError

    if isinstance(error, ParetokenError):
        return error.exit_code
    if isinstance(error, DatabaseUnreachable | NotMigrated | BrokerUnreachable | psycopg.OperationalError):
        return 1
    if isinstance(error, psycopg.DataError) or (isinstance(error, OSError) and error.errno in _NO_ROOM):
        return 1
    if isinstance(error, AnalysisError | DatabaseError | SchedulerError | WorkerError):
        return 2
    if isinstance(error, psycopg.errors.InsufficientPrivilege | psycopg.errors.ReadOnlySqlTransaction):
        return 2
    return None


def _message(error: Exception) -> str:
    import psycopg

    from db.errors import DatabaseUnreachable

    if isinstance(error, DatabaseUnreachable):
        # The driver says it in several lines.
        return " ".join(str(error).split())
    if isinstance(error, psycopg.errors.InsufficientPrivilege | psycopg.errors.ReadOnlySqlTransaction):
        return f"This database user may not do that ({error.diag.message_primary}). Use the login that workers use."
    if isinstance(error, psycopg.OperationalError):
        said = str(error).strip().splitlines()[0]
        return f"The database went away ({said}). The same command goes on when it is back."
    if isinstance(error, psycopg.DataError):
        said = str(error).strip().splitlines()[0]
        return f"The database holds or was asked for a value that cannot be read ({said})."
    if isinstance(error, OSError):
        return f"{error.filename or 'The output'}: cannot be written ({error.strerror})."
    return str(error)


def _say(text: str) -> None:
    from analysis.safetext import terminal_text

    typer.echo(terminal_text(text), err=True)
