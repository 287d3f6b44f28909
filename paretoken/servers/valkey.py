"""Valkey (or Redis) as an embedded server: its configuration, whether it answers."""

from pathlib import Path
from signal import SIGTERM, Signals

from paretoken.servers.accounts import uid_of
from paretoken.servers.binaries import Binary, find_valkey
from paretoken.servers.record import Record, write_private

SETTINGS = {
    "bind": "127.0.0.1",
    "protected-mode": "yes",
    "daemonize": "no",
    # The command line has to keep showing whose server it is.
    "set-proc-title": "no",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": '""',
    "maxmemory-policy": "noeviction",
}


class Valkey:
    """See `supervisor.Engine`."""

    name = "valkey"
    stop_signal: Signals = SIGTERM

    def find(self) -> Binary:
        return find_valkey()

    def marker(self, place: Path) -> str:
        return str(place / "valkey.conf")

    def prepare(self, binary: Binary, record: Record, place: Path) -> None:
        """Nothing: Valkey makes its files by itself."""

    def command(self, binary: Binary, record: Record, place: Path) -> list[str]:
        """Write the configuration (a file, since other users can see a command line) and name it."""
        settings = {
            **SETTINGS,
            "port": str(record.port),
            "requirepass": record.password,
            "dir": _quoted(str(place)),
        }
        text = "".join(f"{name} {value}\n" for name, value in settings.items())
        write_private(place / "valkey.conf", text, uid=uid_of(record.account))
        return [str(binary.path), str(place / "valkey.conf")]

    def url(self, record: Record, *, password: bool = True) -> str:
        return f"redis://{f':{record.password}@' if password else ''}127.0.0.1:{record.port}/0"

    def problem(self, record: Record) -> str | None:
        """None when the server answers."""
        import redis

        try:
            with redis.Redis.from_url(self.url(record), socket_timeout=5, socket_connect_timeout=5) as client:
                client.ping()
        except redis.RedisError as error:  # also while it is still loading its data
            return str(error)
        return None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
