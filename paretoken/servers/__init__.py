"""Embedded servers: a real PostgreSQL and a real Valkey, without installation and without root.

Both listen on 127.0.0.1 alone and ask for a generated password; their data stays in the data folder:

    HOME/servers/lock                  one starter or stopper at a time
    HOME/servers/NAME.json             port and password
    HOME/servers/NAME.lock, NAME.log   held while the server lives; its log
    HOME/servers/NAME/                 what the server itself reads and writes
    HOME/servers/for-a-while           there where the last command that works with them stops them

They are daemons that outlive whoever started them, until `stop`.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paretoken.errors import InputError

if TYPE_CHECKING:
    from paretoken.servers.supervisor import ServerStatus


_FOR_A_WHILE = "for-a-while"


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Where the two servers answer. The URLs hold passwords, so they are kept out of the repr."""

    database_url: str = field(repr=False)
    """`postgresql://…`"""
    broker_url: str = field(repr=False)
    """`redis://…`"""


@dataclass(frozen=True, kw_only=True)
class Status:
    """Both servers as they are now."""

    postgres: "ServerStatus"
    valkey: "ServerStatus"


def start(home: Path, *, for_a_while: bool = False) -> Servers:
    """Start what is not running and return when both answer; the database `paretoken` exists then.

    They run until somebody stops them. Started `for_a_while` they may be stopped by `stop_after_a_while`, unless one of
    them ran before, or somebody starts them without it, also later.

    May be called again, and by several callers at once. Raises `InputError` when the folder or the programs
    cannot be used, and `RunFailed`, with the end of the log, when a server does not start.
    """
    _require_posix()
    from paretoken.servers import supervisor

    folder = supervisor.make_folder(home)
    with supervisor.exclusive(folder):
        postgres, valkey = supervisor.open_servers(home)
        if not for_a_while:
            (folder / _FOR_A_WHILE).unlink(missing_ok=True)
        elif postgres.running_url() is None and valkey.running_url() is None:
            (folder / _FOR_A_WHILE).touch()
        return Servers(database_url=postgres.start(), broker_url=valkey.start())


def running(home: Path) -> Servers | None:
    """Both servers where both run; changes nothing, and does not ask whether they answer."""
    _require_posix()
    from paretoken.servers import supervisor

    postgres, valkey = (server.running_url() for server in supervisor.open_servers(home))
    return Servers(database_url=postgres, broker_url=valkey) if postgres and valkey else None


def stop(home: Path) -> None:
    """End both servers cleanly and wait until they are gone; nothing to do where none runs.

    Raises `RunFailed` when one does not end within a minute.
    """
    _stop(home, only_after_a_while=False)


def stop_after_a_while(home: Path) -> None:
    """The same, where they were started for a while and by nobody for longer."""
    _stop(home, only_after_a_while=True)


def _stop(home: Path, *, only_after_a_while: bool) -> None:
    _require_posix()
    from paretoken.servers import supervisor

    if not supervisor.has_folder(home):
        return
    folder = supervisor.make_folder(home)
    with supervisor.exclusive(folder):
        if only_after_a_while and not (folder / _FOR_A_WHILE).exists():
            return
        for server in supervisor.open_servers(home):
            server.stop()
        (folder / _FOR_A_WHILE).unlink(missing_ok=True)


def status(home: Path) -> Status:
    """Describe both servers; changes nothing."""
    _require_posix()
    from paretoken.servers import supervisor

    postgres, valkey = supervisor.open_servers(home)
    return Status(postgres=postgres.status(), valkey=valkey.status())


def _require_posix() -> None:
    if sys.platform == "win32":
        raise InputError(
            "The embedded servers need Linux or macOS: name running servers in PARETOKEN_DATABASE_URL and "
            "PARETOKEN_BROKER_URL, or use WSL."
        )
