"""Embedded servers: a real PostgreSQL and a real Valkey, without installation and without root.

Both listen on 127.0.0.1 alone and ask for a generated password; their data stays in the data folder:

    HOME/servers/lock                  one starter or stopper at a time
    HOME/servers/NAME.json             port and password
    HOME/servers/NAME.lock, NAME.log   held while the server lives; its log
    HOME/servers/NAME/                 what the server itself reads and writes

They are daemons that outlive whoever started them, until `stop`.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paretoken.errors import InputError

if TYPE_CHECKING:
    from paretoken.servers.supervisor import ServerStatus


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


def start(home: Path) -> Servers:
    """Start what is not running and return when both answer; the database `paretoken` exists then.

    May be called again, and by several callers at once. Raises `InputError` when the folder or the programs
    cannot be used, and `RunFailed`, with the end of the log, when a server does not start.
    """
    _require_posix()
    from paretoken.servers import supervisor

    with supervisor.exclusive(supervisor.make_folder(home)):
        postgres, valkey = supervisor.open_servers(home)
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
    _require_posix()
    from paretoken.servers import supervisor

    if supervisor.has_folder(home):
        with supervisor.exclusive(supervisor.make_folder(home)):
            for server in supervisor.open_servers(home):
                server.stop()


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
