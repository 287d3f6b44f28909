"""A TCP proxy between a process and its servers: slow, cut, or keeping one answer for itself.

The connections live on an event loop in a thread of its own, so that a test may change the weather at any time.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

COMMIT = b"\x00COMMIT\x00"
"""In what a client of Postgres sends: the statement as a message of its own."""
_READY = b"Z\x00\x00\x00\x05I"
"""Postgres has done all that it was asked for, and no transaction is open."""


@dataclass(kw_only=True, eq=False)
class _Connection:
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    swallowing: bool = False
    """The answer to what the client has just sent is not passed on."""

    def reset(self) -> None:
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                # Lingering for no time makes the kernel send RST instead of FIN.
                side.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            side.transport.abort()


@dataclass(kw_only=True)
class Proxy:
    """Stands before the server of a URL; `url` is what its victim is given."""

    target: str
    latency_s: float = 0.0
    """Added to everything that passes, in either direction."""
    swallowed: int = 0
    """Answers that were kept back so far."""
    _needles: list[bytes] = field(default_factory=list)
    _connections: set[_Connection] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _port: int = 0
    _server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        parts = urlsplit(self.target)
        return self.target.replace(f"{parts.hostname}:{parts.port}", f"127.0.0.1:{self._port}")

    def open(self) -> None:
        """Accept connections (again)."""
        self._do(self._open())

    def close(self) -> None:
        """Refuse new connections, reset all that there are."""
        self._do(self._close())

    def cut(self) -> None:
        """Reset all connections; new ones are accepted."""
        self._call(lambda: [connection.reset() for connection in list(self._connections)])

    def swallow_answer(self, needle: bytes) -> None:
        """Pass on the next message that holds `needle`, keep its answer, reset the connection instead."""
        self._call(lambda: self._needles.append(needle))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _call(self, work: Callable[[], object]) -> None:
        async def call() -> None:
            work()

        self._do(call())

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server:
            self._server.close()
        for connection in list(self._connections):
            connection.reset()
        # Lets the handlers see that their connections are gone.
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.target)
        try:
            server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(client=writer, server=server_writer)
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._upwards(connection, reader), self._downwards(connection, server_reader)
            )
        except OSError:
            pass
        finally:
            self._connections.discard(connection)
            connection.reset()

    async def _upwards(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(self.latency_s)
            for needle in self._needles:
                if needle in data:
                    self._needles.remove(needle)
                    connection.swallowing = True
                    break
            connection.server.write(data)
            await connection.server.drain()
        connection.server.close()

    async def _downwards(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(self.latency_s)
            if connection.swallowing:
                if data.endswith(_READY):
                    self.swallowed += 1
                    raise ConnectionResetError
                continue
            connection.client.write(data)
            await connection.client.drain()
        connection.client.close()
