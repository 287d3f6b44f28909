"""A call that is a run of a program: a folder of its own, a clean environment, the outcome."""

import asyncio
import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workers.commands import CLIENTS
from workers.commands.base import Address
from workers.commands.folder import lay_out, written
from workers.commands.outcome import Ran, Reader
from workers.commands.process import run_program
from workers.commands.programs import program_at, what_is_missing
from workers.context import RunContext
from workers.gateway import Request
from workers.strategies.command import Command

log = logging.getLogger(__name__)

# What a program needs from the machine; the gateway may only be reached through its proxy.
KEPT_VARIABLES = (
    "PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
_MOST_NAMED = 5
_SHORTEST_SECRET = 8
# Stands nowhere, so nothing is struck out.
_NOTHING = secrets.token_hex(5)


async def run_command(
    strategy: Command,
    request: Request,
    *,
    run: RunContext,
    files: Mapping[str, bytes],
    stopped: "asyncio.Future[Any]",
) -> Ran:
    """Run the strategy's program on a request's prompt and a task's files, in a folder that is removed afterwards."""
    client = CLIENTS[strategy.client]
    command = strategy.command or client.program
    secret = _secret(run)
    reader = Reader(client, program=command[0], model=request.model, key=secret)
    program = program_at(command[0])
    if program is None:
        missing = what_is_missing(command[0], where=socket.gethostname())
        return reader.not_started(". ".join(missing or [command[0]]))
    own_settings = client.settings_file in strategy.home
    address = Address(
        base_url=None if own_settings else strategy.base_url or client.base_url(run.base_url),
        model=request.model,
        key=run.key.secret,
        key_variable=run.key_env or "PARETOKEN_KEY",
    )
    try:
        scratch = await asyncio.to_thread(_laid_out, request, files, strategy.home)
    except (OSError, ValueError) as error:
        return reader.not_started(f"its folder cannot be laid out on {socket.gethostname()}: {error}")
    try:
        ended = await run_program(
            [str(program), *command[1:], *client.arguments(address, strategy.arguments)],
            scratch,
            {**_environment(scratch), **client.variables(address)},
            wall_time_s=strategy.wall_time_s,
            stopped=stopped,
        )
        ran = reader.read(ended, wall_time_s=strategy.wall_time_s)
        if ran.status != "ok":
            return ran
        kept, not_kept = await asyncio.to_thread(written, scratch / "work", files, key=secret)
        return replace(ran, files=kept, message=reader.note(_note(not_kept)) if not_kept else None)
    except Exception as error:
        # The call is started: whatever a program does to its reader, the call gets its outcome.
        log.exception("The outcome of %s cannot be read.", command[0])
        return reader.unreadable(error)
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


def _secret(run: RunContext) -> str:
    """What may not stand in any text. A short word that some local gateways take for a key is none."""
    secret = run.key.secret
    return secret if run.key_env is not None and len(secret) >= _SHORTEST_SECRET else _NOTHING


def _laid_out(request: Request, files: Mapping[str, bytes], home: Mapping[str, str]) -> Path:
    """`prompt.txt`, and the folders `work` (the task's files), `home` and `tmp`."""
    scratch = Path(tempfile.mkdtemp(prefix="paretoken-command-"))
    for name in ("work", "home", "tmp"):
        (scratch / name).mkdir()
    prompt = "\n\n".join(str(message["content"]) for message in request.messages)
    (scratch / "prompt.txt").write_text(prompt, encoding="utf-8", errors="replace")
    lay_out(scratch / "work", files)
    lay_out(scratch / "home", {name: text.encode() for name, text in home.items()})
    return scratch


def _environment(scratch: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return kept | {"HOME": str(scratch / "home"), "TMPDIR": str(scratch / "tmp")}


def _note(not_kept: Sequence[str]) -> str:
    named = ", ".join(repr(name[:40]) for name in not_kept[:_MOST_NAMED])
    return f"{len(not_kept)} entries of its folder were not kept: {named}{', …' if len(not_kept) > _MOST_NAMED else ''}"
