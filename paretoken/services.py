"""The database and the broker that a command works with: the user's own, or the embedded ones."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paretoken.errors import InputError
from paretoken.interrupts import uninterrupted
from paretoken.settings import BROKER_URL, DATABASE_URL, Settings, read_settings

if TYPE_CHECKING:
    from paretoken.servers import Servers


@dataclass(frozen=True, kw_only=True)
class Services:
    """Where the two servers answer; the URLs hold passwords."""

    database_url: str = field(repr=False)
    broker_url: str = field(repr=False)


def own_services() -> Services:
    """The servers that the environment names, for processes that never start servers themselves.

    Raises:
        InputError: it names none.
    """
    own = _named(read_settings())
    if own is None:
        raise InputError(
            f"Set {DATABASE_URL} and {BROKER_URL}, the same on every machine. "
            'On one machine: eval "$(paretoken servers start --shell)".'
        )
    return own


def _named(settings: Settings) -> Services | None:
    if settings.database_url is None or settings.broker_url is None:
        return None
    return Services(database_url=settings.database_url, broker_url=settings.broker_url)


def services_at_hand() -> Services | None:
    """The user's own servers, or the embedded ones as they run now. Whether they answer is for the asker to see."""
    settings = read_settings()
    if own := _named(settings):
        return own
    from paretoken import servers

    found = servers.running(settings.home)
    return None if found is None else Services(database_url=found.database_url, broker_url=found.broker_url)


@contextmanager
def started_services(*, broker: bool = True) -> Iterator[Services]:
    """The user's own servers, or the embedded ones: started, migrated, and stopped again if they did not run before.

    `broker = False` is for commands that only need the database.
    """
    settings = read_settings()
    if own := _named(settings):
        if broker:
            require_reachable(own.broker_url)
        require_migrated(own.database_url)
        yield own
        return
    with _embedded(settings.home) as found:
        _upgrade(found.database_url)
        yield Services(database_url=found.database_url, broker_url=found.broker_url)


@contextmanager
def _embedded(home: Path) -> "Iterator[Servers]":
    """The embedded servers. Who finds them at rest starts them for a while; the last one to leave stops them then."""
    # Not everywhere, as the embedded servers are not.
    import fcntl

    from paretoken import servers

    found = servers.start(home, for_a_while=True)
    with (home / "servers" / "users.lock").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            if servers.running(home) is None:
                # Between the start and the lock the last user has stopped them.
                found = servers.start(home, for_a_while=True)
            yield found
        finally:
            with uninterrupted(), suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                servers.stop_after_a_while(home)


@contextmanager
def migrated_database() -> Iterator[str]:
    """URL of the database for a command that needs no broker; the embedded one is started where it does not run."""
    with started_services(broker=False) as services:
        yield services.database_url


def _upgrade(database_url: str) -> None:
    from db.revision import is_current

    if not is_current(database_url):
        from db.migration import upgrade

        upgrade(database_url)


def require_migrated(database_url: str) -> None:
    """Raise `NotMigrated` unless the database has this version's schema."""
    from db.revision import is_current

    if not is_current(database_url):
        from db.migration import require_current

        require_current(database_url)


def require_reachable(broker_url: str) -> None:
    """Raise `BrokerUnreachable` unless the broker answers."""
    import redis

    from scheduler.errors import BrokerUnreachable

    broker = redis.Redis.from_url(broker_url, socket_connect_timeout=3, socket_timeout=5)
    try:
        broker.ping()
    except redis.RedisError as error:
        raise BrokerUnreachable(
            f"No broker answers at {BROKER_URL}: {str(error).rstrip('.')}. Start it, or correct the URL."
        ) from None
    finally:
        broker.close()
