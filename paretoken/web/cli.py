"""`paretoken serve`: the read-only pages, on this machine alone unless it is told otherwise."""

import ipaddress
import os
import re
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paretoken.errors import InputError

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from db.connection import Connection

VARIABLE = "PARETOKEN_SERVE_TOKEN"
_RULE = r"[A-Za-z0-9._~-]{16,200}"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1", "[::1]")
_CONNECTIONS = 8
_VISITS_AT_ONCE = 64


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = 8766,
    reports: Annotated[Path, typer.Option(help="Folder with a folder of report files for each run.")] = Path(
        "runs"
    ),
) -> None:
    """Serve read-only pages for looking into runs: progress, trials, prompts, outputs, checks, verdicts, costs.

    Beyond loopback every visitor needs a token: the one in PARETOKEN_SERVE_TOKEN, or else one that is made and
    shown at the start.

    Example: paretoken serve --port 8766
    """
    from paretoken.services import migrated_database

    given = os.environ.get(VARIABLE) or None
    if given is not None and not re.fullmatch(_RULE, given):
        raise InputError(f"{VARIABLE}: 16 to 200 letters, digits, '.', '_', '~' and '-' are wanted.")
    near = _is_loopback(host)
    token = given or (None if near else secrets.token_urlsafe(32))
    with migrated_database() as database_url, _listening(host, port) as listening:
        _say_where(host, listening.getsockname()[1], token, made=given is None)
        _serve(database_url, listening, reports=reports, hosts=_names(host) if near else None, token=token)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names(host: str) -> list[str]:
    """What a visitor on this machine may call it."""
    return sorted({*_LOOPBACK_NAMES, host, f"[{host}]"})


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        # Python adds the address once more.
        said = (error.strerror or str(error)).partition(" (while ")[0]
        raise InputError(
            f"Nothing can listen on {host}, port {port} ({said}). Choose others with --host and --port."
        ) from None


def _say_where(host: str, port: int, token: str | None, *, made: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    query = "" if token is None else f"/?token={token if made else f'${VARIABLE}'}"
    typer.echo(f"Look into runs at http://{shown}:{port}{query} (Ctrl-C ends it).")
    if not _is_loopback(host):
        typer.echo(
            "The connection is not encrypted: put a proxy with TLS before it on any shared network.", err=True
        )


def _serve(
    database_url: str, listening: socket.socket, *, reports: Path, hosts: list[str] | None, token: str | None
) -> None:
    import uvicorn

    from db.browse import reading_pool
    from paretoken.web.app import STATEMENT_S, build

    with reading_pool(database_url, size=_CONNECTIONS, statement_s=STATEMENT_S) as pool:
        _say_who(pool)
        config = uvicorn.Config(
            build(pool=pool, reports=reports, hosts=hosts, token=token),
            lifespan="off",
            log_level="warning",
            # It would hold tokens.
            access_log=False,
            server_header=False,
            limit_concurrency=_VISITS_AT_ONCE,
            ws="none",
        )
        uvicorn.Server(config).run(sockets=[listening])


def _say_who(pool: "ConnectionPool[Connection]") -> None:
    from db.browse import AUDITOR

    with pool.connection() as connection:
        row = connection.execute("SELECT current_user AS name").fetchone()
    if row is not None and row["name"] != AUDITOR:
        typer.echo(
            f"The role {AUDITOR} cannot be taken here: sessions are read-only, with this user's own rights. "
            f"`paretoken db grant-auditor` makes the role.",
            err=True,
        )
