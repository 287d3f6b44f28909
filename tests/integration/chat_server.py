"""A gateway of a few lines on a real socket: a function of the request makes the assistant's message."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Request body -> the assistant's message."""


@dataclass(kw_only=True)
class ChatServer:
    base_url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Every request body, in the order they came."""


@contextmanager
def chat_server(reply: Reply) -> Iterator[ChatServer]:
    served = ChatServer(base_url="")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            served.requests.append(body)
            message = {"role": "assistant", "content": None, **reply(body)}
            finish_reason = "tool_calls" if message.get("tool_calls") else "stop"
            answer = {
                "id": f"r{len(served.requests)}",
                "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def tool_call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A message that calls one tool."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": f"call_{tool}", "type": "function", "function": function}]}
