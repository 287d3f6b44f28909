"""The record of every request: what was asked, what was served, and with which usage."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paretoken.errors import InputError


class Record:
    """Rows in memory as JSON lines, in a file too where one is named, and counts over them.

    A row is on disk (flushed) before the last byte of its response is sent.
    """

    def __init__(self, path: Path | None = None) -> None:
        try:
            self._file = path.open("ab") if path else None
        except OSError as error:
            raise InputError(f"The record file {path} cannot be written ({error}): name another.") from error
        self._in_flight = 0
        self._reset()

    def _reset(self) -> None:
        self._lines: list[bytes] = []
        self._requests = 0
        self._peak_in_flight = self._in_flight
        self._counts = dict.fromkeys(
            ("served", "rejected_429", "input_tokens", "output_tokens", "total_tokens"), 0
        )

    def append(self, row: dict[str, Any]) -> None:
        """Add one finished request."""
        line = json.dumps(row, ensure_ascii=False).encode()
        self._lines.append(line)
        self._counts["rejected_429"] += row["status"] == 429
        if row["served"]:
            self._counts["served"] += 1
            for key in ("input_tokens", "output_tokens", "total_tokens"):
                self._counts[key] += row[key]
        if self._file:
            self._file.write(line + b"\n")
            self._file.flush()

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a request, as in flight meanwhile."""
        self._requests += 1
        self._in_flight += 1
        self._peak_in_flight = max(self._peak_in_flight, self._in_flight)
        try:
            yield
        finally:
            self._in_flight -= 1

    def clear(self) -> None:
        """Forget all rows and counts, in the file too."""
        self._reset()
        if self._file:
            self._file.truncate(0)

    def as_json(self) -> bytes:
        """All rows as one JSON list, in the order of their ending."""
        return b"[" + b",\n".join(self._lines) + b"]"

    def stats(self) -> dict[str, int]:
        """Counts since the start or the last `clear`; tokens are those of served requests."""
        return {
            "requests": self._requests,
            "in_flight": self._in_flight,
            "peak_in_flight": self._peak_in_flight,
            **self._counts,
        }

    def close(self) -> None:
        if self._file:
            self._file.close()


def clocks() -> dict[str, float]:
    """Both clocks, in seconds: `monotonic` for differences, `wall` (Unix time) to find a row by."""
    return {"monotonic": time.monotonic(), "wall": time.time()}
