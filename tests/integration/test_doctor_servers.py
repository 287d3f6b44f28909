"""What the checklist says of database and broker: real ones, and ones on a real socket that are wrong in one way."""

import os
import socketserver
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from paretoken.doctor.servers import check_servers
from paretoken.findings import Finding
from paretoken.servers import Servers
from paretoken.settings import BROKER_URL, DATABASE_URL, HOME

PASSWORD = "hidden-5d1e"
NO_DATABASE = f"postgresql://user:{PASSWORD}@127.0.0.1:9/x"
NO_BROKER = f"redis://:{PASSWORD}@127.0.0.1:9/0"
INFO = {"redis_version": "7.4.1", "maxmemory_policy": "noeviction", "maxmemory": "0"}


class _OldPostgres(socketserver.StreamRequestHandler):
    """Lets everybody in and says that it is version 12.4."""

    def handle(self) -> None:
        while True:
            length, code = struct.unpack("!ii", self.rfile.read(8))
            self.rfile.read(length - 8)
            if code >> 16 == 3:  # the start-up message; before it come the wishes for TLS and GSS
                break
            self.wfile.write(b"N")
        version = b"server_version\x0012.4\x00"
        self.wfile.write(
            b"R" + struct.pack("!ii", 8, 0) + b"S" + struct.pack("!i", 4 + len(version)) + version
        )
        self.wfile.write(b"Z" + struct.pack("!i", 5) + b"I")
        self.rfile.read(1)


class _Broker(socketserver.StreamRequestHandler):
    """Answers INFO and TIME, and OK to all else."""

    info: Mapping[str, str] = INFO
    ahead_s = 0

    def handle(self) -> None:
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2].upper())
            self.wfile.write(self._answer(words[0]))

    def _answer(self, command: bytes) -> bytes:
        if command == b"INFO":
            text = "".join(f"{name}:{value}\r\n" for name, value in self.info.items())
            return f"${len(text)}\r\n{text}\r\n".encode()
        if command == b"TIME":
            seconds = str(int(time.time()) + self.ahead_s)
            return f"*2\r\n${len(seconds)}\r\n{seconds}\r\n$1\r\n0\r\n".encode()
        return b"-ERR unknown command\r\n" if command == b"HELLO" else b"+OK\r\n"


@contextmanager
def served(handler: type[socketserver.StreamRequestHandler]) -> Iterator[int]:
    """The port at which it answers."""
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def check(*, database: str = NO_DATABASE, broker: str = NO_BROKER) -> list[Finding]:
    found = check_servers({DATABASE_URL: database, BROKER_URL: broker, HOME: "/nowhere"})
    assert PASSWORD not in str(found)
    return found


def about(found: list[Finding], what: str) -> str:
    return "\n".join(f"{one.level}: {one.seen} -> {one.do}" for one in found if one.what == what)


def test_real_servers_are_well(database_url: str, broker_url: str) -> None:
    found = check(database=database_url, broker=broker_url)
    assert [(one.what, one.level) for one in found] == [
        ("database", "ok"),
        ("database", "ok"),
        ("broker", "ok"),
        ("clocks", "ok"),
    ]
    assert "Valkey 9" in about(found, "broker")


def test_embedded_servers_that_run(embedded: Servers) -> None:
    """They are looked at like others, but for their tables, which the next run brings up to date."""
    found = check_servers({HOME: os.environ["PARETOKEN_TEST_SERVERS"]})
    assert {(one.what, one.level) for one in found} == {
        ("database", "ok"),
        ("broker", "ok"),
        ("clocks", "ok"),
    }
    assert "brought to this version by the next run" in about(found, "database")


def test_both_down() -> None:
    found = check()
    assert "failure: No database answers" in about(found, "database")
    assert f"Start it, or correct {DATABASE_URL}" in about(found, "database")
    assert "failure: no answer: Error 111" in about(found, "broker")
    assert f"Start it, or correct {BROKER_URL}" in about(found, "broker")


def test_a_database_that_was_not_migrated(empty_database_url: str) -> None:
    said = about(check(database=empty_database_url), "database")
    assert "failure: The database holds no tables" in said
    assert "Run `paretoken db upgrade`" in said


def test_a_database_that_does_not_exist(embedded: Servers) -> None:
    said = about(check(database=f"{embedded.database_url.rpartition('/')[0]}/nothing_here"), "database")
    assert (
        "failure: No database answers: connection failed: " in said
        and '"nothing_here" does not exist' in said
    )


def test_a_postgres_that_is_too_old() -> None:
    with served(_OldPostgres) as port:
        said = about(check(database=f"postgresql://user@127.0.0.1:{port}/x"), "database")
    assert said == "failure: PostgreSQL 12 is too old -> Use PostgreSQL 14 or newer."


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"redis_version": "6.0.16"}, ("failure: Redis 6.0.16 is too old", "6.2 or newer")),
        (
            {"maxmemory_policy": "allkeys-lru", "maxmemory": "1000000"},
            (
                "failure: Redis 7.4.1 drops keys when memory is short (allkeys-lru)",
                "maxmemory-policy noeviction",
            ),
        ),
        ({"maxmemory_policy": "volatile-lru"}, ("warning: Redis 7.4.1 drops keys", "once maxmemory is set")),
    ],
    ids=["too old", "evicts", "would evict"],
)
def test_a_broker_that_is_not_fit(info: Mapping[str, str], says: tuple[str, ...]) -> None:
    handler = type("Handler", (_Broker,), {"info": INFO | info})
    with served(handler) as port:
        said = about(check(broker=f"redis://127.0.0.1:{port}/0"), "broker")
    assert all(part in said for part in says), said


def test_a_broker_whose_clock_is_an_hour_ahead() -> None:
    with served(type("Handler", (_Broker,), {"ahead_s": 3600})) as port:
        found = check(broker=f"redis://127.0.0.1:{port}/0")
    assert "ok: Redis 7.4.1 answers" in about(found, "broker")
    said = about(found, "clocks")
    assert (
        "warning: the broker's clock is 3" in said
        and "s ahead of this machine's -> " in said
        and "NTP" in said
    )


@pytest.mark.parametrize(
    ("database", "says"),
    [
        (f"postgresql://u:{PASSWORD}%@127.0.0.1/x", "Write special characters of the password as %XX"),
        (f"postgresql://u:{PASSWORD}@127.0.0.1/x?nonsense=1", "check the options after '?'"),
        (f"mysql://u:{PASSWORD}@127.0.0.1/x", "must begin with postgresql://"),
    ],
)
def test_a_database_url_that_cannot_be_read(database: str, says: str) -> None:
    found = check(database=database)
    assert says in f"{about(found, 'database')}{about(found, 'servers')}"


def test_one_url_without_the_other() -> None:
    said = about(check_servers({DATABASE_URL: NO_DATABASE, HOME: "/nowhere"}), "servers")
    assert f"failure: {DATABASE_URL} is set but {BROKER_URL} is not" in said
