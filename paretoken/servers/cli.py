"""`paretoken servers`: the embedded servers from the command line."""

import json
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from paretoken.servers.supervisor import ServerStatus

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="The embedded PostgreSQL and Valkey: start, stop, status.",
)

_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for a script.")]


@app.command()
def start(
    as_json: _Json = False,
    shell: Annotated[bool, typer.Option("--shell", help="Print the two variables for a shell.")] = False,
) -> None:
    """Start the servers that are not running, and wait until they answer.

    With --json or --shell the two URLs are printed with their passwords, for scripts and for workers on this machine.

    Example: eval "$(paretoken servers start --shell)"
    """
    from paretoken import servers
    from paretoken.settings import BROKER_URL, DATABASE_URL

    home = _home()
    started = servers.start(home)
    if as_json:
        typer.echo(json.dumps({"database_url": started.database_url, "broker_url": started.broker_url}))
    elif shell:
        for name, url in ((DATABASE_URL, started.database_url), (BROKER_URL, started.broker_url)):
            typer.echo(f"export {name}={shlex.quote(url)}")
    else:
        _show(home)


@app.command()
def stop(as_json: _Json = False) -> None:
    """Stop the servers cleanly; their data stays.

    Example: paretoken servers stop
    """
    from paretoken import servers

    home = _home()
    servers.stop(home)
    typer.echo(_json(home) if as_json else "Both servers are stopped; their data stays.")


@app.command()
def status(as_json: _Json = False) -> None:
    """Say of each server whether it runs, and where its data and log are.

    Example: paretoken servers status --json | jq .postgres.running
    """
    home = _home()
    if as_json:
        typer.echo(_json(home))
    else:
        _show(home)


def _home() -> "Path":
    from paretoken.settings import BROKER_URL, DATABASE_URL, read_settings

    settings = read_settings()
    if settings.database_url is not None:
        typer.echo(
            f"Note: {DATABASE_URL} and {BROKER_URL} are set, so runs do not use these servers.", err=True
        )
    return settings.home


def _show(home: "Path") -> None:
    from paretoken import servers

    now = servers.status(home)
    for server in (now.postgres, now.valkey):
        typer.echo(_lines(server))


def _lines(server: "ServerStatus") -> str:
    state = f"running, process {server.pid}, {server.url}" if server.running else "stopped"
    return f"{server.version or 'No program found'}: {state}\n  data {server.folder}\n  log  {server.log}"


def _json(home: "Path") -> str:
    from paretoken import servers

    return json.dumps(asdict(servers.status(home)), default=str)
