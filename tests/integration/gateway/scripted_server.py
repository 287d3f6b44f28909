"""A server on a real socket that does exactly what a test tells it to, byte by byte."""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from workers.gateway import Request

KEY = "sk-test-0123456789abcdef"


@dataclass(kw_only=True)
class Received:
    """One request as it came in."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Behaviour = Callable[["Exchange"], Awaitable[None]]


@dataclass(kw_only=True)
class Exchange:
    """A request with the means to answer it."""

    request: Received
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes | str | dict[str, Any], *, status: int = 200, **headers: str) -> None:
        """A complete answer; a mapping goes out as JSON."""
        if isinstance(body, dict):
            body = json.dumps(body)
        data = body.encode() if isinstance(body, str) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        head = {"content-type": "application/json", "content-length": str(len(data))} | named
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        await self.send(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + data)

    async def stream(self, *events: str, end: bool = True) -> None:
        """A chunked event stream of these events; without `end` it is left open."""
        await self.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for event in events:
            data = event.encode()
            await self.send(b"%x\r\n%s\r\n" % (len(data), data))
        if end:
            await self.send(b"0\r\n\r\n")

    def close(self) -> None:
        """Close with FIN."""
        self.writer.close()

    def reset(self) -> None:
        """Close with RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@dataclass(kw_only=True)
class Server:
    """Answers every request by `behaviour`, and keeps what it received."""

    behaviour: Behaviour
    received: list[Received] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """A client has closed its connection."""
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    port: int = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                request = await _read_request(reader)
                self.received.append(request)
                self.arrived.set()
                await self.behaviour(Exchange(request=request, writer=writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.left.set()
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(line=head[0], headers=headers, body=body)


def ask(**fields: Any) -> Request:
    """A request with defaults for what a test does not care about."""
    defaults: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "2+2?"}],
        "max_tokens": 16,
        "request_id": "123:1",
    }
    return Request(**defaults | fields)


def completion(content: Any = "4", **fields: Any) -> dict[str, Any]:
    """A completion body: 10 tokens in, 3 out."""
    return {
        "id": "chatcmpl-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
    } | fields
