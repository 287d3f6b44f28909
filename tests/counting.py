"""A proxy before a gateway that counts what the gateway says it served, whatever interface it was asked through."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from analysis.usage import usage_from_raw

_KEPT = ("authorization", "x-api-key", "content-type", "accept", "anthropic-version", "anthropic-beta")


@dataclass(kw_only=True)
class Counting:
    """What has passed, per model."""

    address: str
    tokens: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Model -> (input, output) of every request that was served."""
    keys: set[str] = field(default_factory=set)
    """Keys that were sent."""

    def sums(self, model: str) -> tuple[int, int]:
        served = self.tokens.get(model, [])
        return sum(tokens for tokens, _ in served), sum(tokens for _, tokens in served)


@contextmanager
def counting_proxy(gateway: str) -> Iterator[Counting]:
    """The proxy, while it runs; `gateway` is an address without a path."""
    counting = Counting(address="")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name: self.headers[name] for name in _KEPT if name in self.headers}
            request = urllib.request.Request(
                f"{gateway}{self.path}", data=body, headers=headers, method="POST"
            )
            try:
                with urllib.request.urlopen(request) as answer:
                    status, kind, served = answer.status, answer.headers["content-type"], answer.read()
            except urllib.error.HTTPError as error:
                status, kind, served = error.code, error.headers["content-type"], error.read()
            key = self.headers.get("x-api-key") or self.headers.get("authorization") or ""
            counting.keys.add(key.removeprefix("Bearer "))
            if status == 200:
                counting.tokens.setdefault(json.loads(body)["model"], []).append(_served(served.decode()))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(served)))
            self.end_headers()
            self.wfile.write(served)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    counting.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield counting
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _served(text: str) -> tuple[int, int]:
    """Input and output tokens of one answer, a JSON body or a stream of events."""
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    found: dict[str, Any] = {}
    for event in events or [json.loads(text)]:
        for holder in (event, event.get("message"), event.get("response")):
            if isinstance(holder, Mapping) and isinstance(holder.get("usage"), Mapping):
                found |= holder["usage"]
    usage = usage_from_raw(found)
    assert usage.input_tokens is not None
    assert usage.output_tokens is not None
    return usage.input_tokens, usage.output_tokens
