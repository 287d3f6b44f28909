"""`paretoken clients`: files for agent clients from the command line."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)

_Model = Annotated[str | None, typer.Option("--model", help="Model; default: the experiment's.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for a script.")]


class AppName(StrEnum):
    """Whose files are written."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CC_SWITCH = "cc-switch"
    ALL = "all"


@app.callback()
def _group() -> None:
    """Files that let Claude Code, Codex and CC Switch use the same gateway."""


@app.command()
def write(
    *,
    out: Annotated[
        Path, typer.Option("--out", help="Folder: your home, a project's, or an empty one to look at.")
    ],
    experiment: Annotated[
        Path | None, typer.Argument(help="Experiment file; without it: TAOTOKEN_BASE_URL and --model.")
    ] = None,
    client: Annotated[AppName, typer.Option("--app", help="Whose files.")] = AppName.ALL,
    model: _Model = None,
    small_model: Annotated[
        str | None,
        typer.Option("--small-model", help="Claude Code's model for small things; default: the same."),
    ] = None,
    claude_base_url: Annotated[
        str | None,
        typer.Option("--claude-base-url", help="Where /v1/messages is; default: the base URL without /v1."),
    ] = None,
    codex_base_url: Annotated[
        str | None,
        typer.Option("--codex-base-url", help="Where /responses is; default: the base URL with /v1."),
    ] = None,
    codex_version: Annotated[
        str | None, typer.Option("--codex-version", help="Write for this version; default: a current one.")
    ] = None,
    show_key: Annotated[
        bool, typer.Option("--show-key", help="Print CC Switch's import links, which hold the key itself.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that are there; NAME.bak keeps them.")
    ] = False,
) -> None:
    """Write client files for the experiment's gateway; no key is in any of them.

    Example: paretoken clients write my.toml --app claude-code --out clients
    """
    from analysis.safetext import terminal_text
    from paretoken.clients import writing
    from paretoken.doctor.target import require_gateway
    from workers.keys import read_key

    target = require_gateway(experiment, model=model, environment=os.environ)
    gateway = writing.gateway_of(
        target,
        small_model=small_model,
        claude_base_url=claude_base_url,
        codex_base_url=codex_base_url,
        codex_version=codex_version,
    )
    secret = read_key(target.key_variable).secret if show_key else None
    made = writing.files(client.value, gateway)
    for path in writing.write_files(made, folder=out, force=force):
        typer.echo(terminal_text(f"wrote {path}"))
    for line in writing.endpoints(client.value, gateway):
        typer.echo(terminal_text(f"{line}: `paretoken doctor` says whether the gateway serves it."))
    typer.echo(f"The key is read from {target.key_variable} when a client starts; no file holds it.")
    if secret is not None:
        for link in writing.links(gateway, secret=secret):
            typer.echo(link)
    elif client in (AppName.CC_SWITCH, AppName.ALL):
        typer.echo("--show-key prints links by which CC Switch imports the gateway, key included.")


@app.command()
def check(
    experiment: Annotated[
        Path | None, typer.Argument(help="Experiment file, whose gateway the files should name.")
    ] = None,
    home: Annotated[Path | None, typer.Option("--home", help="The user's folder; default: yours.")] = None,
    project: Annotated[
        Path | None, typer.Option("--project", help="A project's folder; default: this one.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Check the client files that exist: addresses, keys, what overrides what; exit code 1 on a failure.

    Example: paretoken clients check my.toml --project .
    """
    from paretoken.clients.checking import check_clients
    from paretoken.doctor.target import read_target
    from paretoken.doctor.variables import secrets_in
    from paretoken.findings import report, without_secrets

    target, findings = read_target(experiment, model=None, environment=os.environ)
    wrong = [found for found in findings if found.level == "failure"]
    found = check_clients(
        home=home or Path.home(),
        project=project or Path.cwd(),
        base_url=target.base_url,
        environment=os.environ,
        key_variable=target.key_variable,
    )
    report(without_secrets([*wrong, *found], secrets_in(os.environ, target.key_variable)), as_json=as_json)
