"""A gateway that costs almost nothing, so that it is never the bottleneck: every question gets the same answer.

    python -m benchmarks.gateway --latency-ms 200 --sigma 0.8

Prints its base URL as JSON and serves until standard input ends. `GET /stats` counts.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

MODEL = "bench"
USAGE = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}


class Served:
    """What all connections share."""

    def __init__(self, latency_ms: float, sigma: float) -> None:
        self.latency_ms, self.sigma = latency_ms, sigma
        self.received = self.answered = self.most_in_flight = 0
        self.first_at: float | None = None
        self._random = random.Random(7)

    def receive(self) -> float:
        """Count a question; give the seconds until its answer."""
        self.first_at = self.first_at or time.time()
        self.received += 1
        self.most_in_flight = max(self.most_in_flight, self.received - self.answered)
        return self.latency_ms / 1000 * self._random.lognormvariate(0, self.sigma)

    def stats(self) -> dict[str, Any]:
        return {
            "received": self.received,
            "answered": self.answered,
            "in_flight": self.received - self.answered,
            "most_in_flight": self.most_in_flight,
            "first_at": self.first_at,
            "cpu_s": time.process_time(),
        }


class Connection(asyncio.Protocol):
    """As much of HTTP/1.1 as clients of a chat gateway speak."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if len(self._buffer) < end + 4 + length:
            return
        body = bytes(self._buffer[end + 4 :])
        self._buffer.clear()
        if head.startswith(b"post /v1/"):
            wait_s = self._served.receive()
            asyncio.get_running_loop().call_later(wait_s, self._answer, f"bench-{self._served.received}")
            return
        if head.startswith(b"post /latency"):
            self._served.latency_ms = float(body)
        if head.startswith(b"post /forget"):
            self._served.first_at = None
        self._send(json.dumps(self._served.stats()).encode())

    def _answer(self, response_id: str) -> None:
        self._served.answered += 1
        message = {"role": "assistant", "content": "The answer is 42."}
        answer = {
            "id": response_id,
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": USAGE,
        }
        self._send(json.dumps(answer).encode())

    def _send(self, body: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            self._transport.write(head.encode() + body)


@dataclass(frozen=True, kw_only=True)
class QuickGateway:
    """A running gateway."""

    base_url: str
    """`http://127.0.0.1:PORT/v1`"""

    def stats(self) -> dict[str, Any]:
        """`received, answered, in_flight, most_in_flight, first_at` (Unix time), `cpu_s`."""
        return self._ask("GET", "/stats")

    def set_latency(self, latency_ms: float) -> None:
        self._ask("POST", "/latency", str(latency_ms))

    def forget(self) -> None:
        """The next question is the first one again."""
        self._ask("POST", "/forget", "")

    def _ask(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        address = urlsplit(self.base_url)
        connection = HTTPConnection(str(address.hostname), address.port, timeout=60)
        try:
            connection.request(method, path, body)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer


@contextmanager
def quick_gateway(*, latency_ms: float, sigma: float = 0.0) -> Iterator[QuickGateway]:
    """A gateway in a process of its own; latencies are log-normal with this median."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.gateway",
        f"--latency-ms={latency_ms}",
        f"--sigma={sigma}",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield QuickGateway(base_url=json.loads(process.stdout.readline())["base_url"])
        process.stdin.close()


async def serve(latency_ms: float, sigma: float) -> None:
    loop = asyncio.get_running_loop()
    served = Served(latency_ms, sigma)
    server = await loop.create_server(lambda: Connection(served), "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"base_url": f"http://127.0.0.1:{port}/v1"}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency-ms", type=float, default=200, help="median")
    parser.add_argument("--sigma", type=float, default=0, help="of the log-normal latencies; 0: all the same")
    options = parser.parse_args()
    asyncio.run(serve(options.latency_ms, options.sigma))


if __name__ == "__main__":
    main()
