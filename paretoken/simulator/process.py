"""The simulated gateway as a child process, for tests and the demo."""

import http.client
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

from paretoken.errors import InputError, RunFailed
from paretoken.simulator.settings import BASE_PATH, HOST, SimulatorSettings

STOP_S = 10.0


@dataclass(frozen=True, kw_only=True)
class SimulatedGateway:
    """A running simulated gateway. It ends with `stop`, or when this process dies."""

    base_url: str
    """For example `http://127.0.0.1:40001/api/v1`."""
    pid: int
    process: subprocess.Popen[bytes] = field(repr=False)

    def record(self) -> list[dict[str, Any]]:
        """One row for every request so far, in the order of their ending."""
        rows: list[dict[str, Any]] = json.loads(self._control("GET", "record"))
        return rows

    def clear_record(self) -> None:
        """Forget the record and its counts, in the record's file too."""
        self._control("DELETE", "record")

    def stats(self) -> dict[str, int]:
        """Requests, served, in flight and the peak of it, 429s, and the tokens served."""
        counts: dict[str, int] = json.loads(self._control("GET", "stats"))
        return counts

    def set_faults(self, faults: list[dict[str, Any]]) -> None:
        """Switch on these faults and no others; `[]` ends all. Raises `InputError`."""
        self._control("POST", "faults", json.dumps(faults))

    def stop(self) -> None:
        """End the process; it may have ended already."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        try:
            self.process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _control(self, method: str, what: str, body: str | None = None) -> bytes:
        address = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        try:
            connection.request(method, f"/_simulator/{what}", body)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise InputError(json.loads(text)["error"]["message"])
        return text


def launch(
    *,
    tasks: Path | None = None,
    seed: int = 0,
    host: str = HOST,
    port: int = 0,
    base_path: str = BASE_PATH,
    record: Path | None = None,
    latency_ms: float = 0.0,
    latency_sigma: float = 0.0,
    rpm: int | None = None,
    tpm: int | None = None,
    api_key_env: str | None = None,
    faults: list[dict[str, Any]] | None = None,
) -> SimulatedGateway:
    """Start a simulated gateway and return when it accepts connections.

    The options are those of `SimulatorSettings`. Raises `InputError` where they can't be used (a port in
    use, a broken task file) and `RunFailed` where the process ends for another reason.
    """
    settings = SimulatorSettings(
        host=host,
        port=port,
        base_path=base_path,
        tasks=tasks,
        seed=seed,
        record=record,
        latency_ms=latency_ms,
        latency_sigma=latency_sigma,
        rpm=rpm,
        tpm=tpm,
        api_key_env=api_key_env,
        faults=json.dumps(faults or []),
        until_stdin_closes=True,
    )
    with tempfile.TemporaryFile() as complaints:
        process = _begin(settings.arguments(), complaints)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise _start_failure(process, complaints)
    return SimulatedGateway(base_url=json.loads(line)["base_url"], pid=process.pid, process=process)


def _begin(arguments: Sequence[str], complaints: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "paretoken.simulator", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints)


def _start_failure(process: subprocess.Popen[bytes], complaints: IO[bytes]) -> Exception:
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    complaints.seek(0)
    message = complaints.read().decode(errors="replace").strip().removeprefix("Error: ")
    if code == InputError.exit_code:
        return InputError(message)
    return RunFailed(f"The simulated gateway did not start (exit code {code}): {message}")
