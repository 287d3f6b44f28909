"""Gateways on one real socket, each below a path of its own, that are wrong in one way each."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 14, "completion_tokens": 2, "total_tokens": 16}
PAGE = "<html><title>Welcome</title></html>"


def error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "code": code, "type": "error"}}


@dataclass(frozen=True, kw_only=True)
class Odd:
    """What a gateway does. Whatever it has no route for is a 404."""

    at: str = "/api"
    """The path below which it is."""
    status: int = 200
    """Of chat completions and models."""
    says: Any = None
    """The body instead of a completion: JSON, or a text."""
    headers: Mapping[str, str] = field(default_factory=dict)
    models: tuple[str, ...] | None = ("sim-small", "sim-large", "vendor/Other-Model")
    """None: it keeps no list."""
    text: str = "ready"
    usage: bool = True
    stream_usage: bool = True
    silent: bool = False
    """Takes a completion's request and never answers."""
    everywhere: bool = False
    """The same for every path."""
    responses_at: str | None = "/api/v1/responses"
    messages_at: str | None = "/api/v1/messages"
    strict: bool = False
    """Takes no message of the system among those of a conversation."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet: two of them would wait for the acknowledgement of the first.
    wbufsize = -1
    server: "OddGateways"

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _answer(self, asked: Mapping[str, Any]) -> None:
        _, name, rest = self.path.split("/", 2)
        odd, route = self.server.odd[name], f"/{rest}"
        self.server.requests.append((self.command, route))
        if route == f"{odd.at}/chat/completions" and odd.silent:
            self.server.ended.wait()
        elif odd.strict and route == odd.messages_at and asked["messages"][-1]["role"] == "system":
            self._send(422, {"detail": "role: Input should be 'user' or 'assistant'"})
        elif route in (odd.responses_at, odd.messages_at):
            self._send(200, {"id": "r1", "content": []})
        elif odd.everywhere or route == f"{odd.at}/chat/completions":
            self._complete(odd, asked)
        elif route == f"{odd.at}/models" and odd.models is not None:
            self._send(200, {"data": [{"id": model} for model in odd.models]})
        else:
            self._send(404, error(f"no route {self.path}"))

    def _complete(self, odd: Odd, asked: Mapping[str, Any]) -> None:
        if odd.says is not None or odd.status != 200:
            told = str(odd.says).replace("KEY", self.headers.get("authorization", "").removeprefix("Bearer "))
            self._send(odd.status, told if isinstance(odd.says, str) else odd.says, odd.headers)
        elif asked.get("stream"):
            self._stream(odd)
        else:
            choice = {"message": {"role": "assistant", "content": odd.text}, "finish_reason": "stop"}
            self._send(200, {"id": "c1", "choices": [choice]} | ({"usage": USAGE} if odd.usage else {}))

    def _stream(self, odd: Odd) -> None:
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": odd.text}, "finish_reason": "stop"}]}
        ]
        if odd.stream_usage:
            chunks.append({"choices": [], "usage": USAGE})
        events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self._send(200, events, {"content-type": "text/event-stream"})

    def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        kind = "text/html" if isinstance(body, str) and body.startswith("<") else "application/json"
        self.send_response(status)
        for header in (
            {"content-type": kind, "content-length": str(len(data))} | dict(headers or {})
        ).items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class OddGateways(ThreadingHTTPServer):
    """Add a gateway with `add`; `requests` are (method, path below its own) in the order they came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.odd: dict[str, Odd] = {}
        self.requests: list[tuple[str, str]] = []
        self.ended = threading.Event()

    def add(self, odd: Odd) -> str:
        """The URL of the place that its paths count from."""
        name = f"g{len(self.odd)}"
        self.odd[name] = odd
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


@contextmanager
def odd_gateways() -> Iterator[OddGateways]:
    with OddGateways() as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield served
        finally:
            served.ended.set()
            served.shutdown()
            thread.join()
