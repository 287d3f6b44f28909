"""llmock, a simulated gateway that nobody here wrote (development extra)."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_START_S = 60.0


@contextmanager
def llmock(log: Path, *options: str) -> Iterator[str]:
    """Its address, `http://127.0.0.1:PORT`, while it runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        str(Path(sys.executable).with_name("llmock")),
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with log.open("wb") as output:
        server = subprocess.Popen([*command, *options], stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(server, f"{address}/_llmock/requests")
        yield address
    finally:
        server.terminate()
        server.wait()


def _wait_for(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            urllib.request.urlopen(url).close()
        except urllib.error.URLError:
            assert server.poll() is None, "llmock has ended"
            assert time.monotonic() < deadline, "llmock does not answer"
            # It says nowhere else that it listens.
            time.sleep(0.1)
        else:
            return


def ask(address: str, path: str, body: Any = None) -> Any:
    """GET, or with a body POST, on its control interface."""
    request = urllib.request.Request(
        f"{address}/_llmock/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
