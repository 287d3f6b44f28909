"""Ledger rows for tests, as `json.loads` gives them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def row(**changes: Any) -> dict[str, Any]:
    """An answered call; `changes` replaces fields."""
    return {
        "run_id": "theirs",
        "source_platform": "local",
        "task_id": "t1",
        "strategy": "baseline",
        "repeat": 1,
        "round": 1,
        "sample": 1,
        "attempt": 1,
        "model": "m",
        "input_tokens": 100,
        "output_tokens": 20,
        "total_tokens": 120,
        "cached_input_tokens": None,
        "reasoning_tokens": None,
        "latency_ms": 900,
        "status": "ok",
        "error": None,
        "content": "42",
        "try": 1,
        "turn": 1,
        "kind": "generation",
        "purpose": "first",
        "retry_reason": None,
        "used": True,
        "http_status": 200,
        "response_id": "r-1",
        "first_byte_ms": 400,
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 100, "completion_tokens": 20},
        "cost_usd": 0.0005,
        "worker": "host:1:abc",
        "started_at": "2026-01-02T03:04:05.000001+00:00",
        "finished_at": "2026-01-02T03:04:05.9+00:00",
        "winner": None,
        "opponent": None,
    } | changes


def unanswered(status: str = "error", error: str = "server_error", **changes: Any) -> dict[str, Any]:
    """A call that brought no answer and told no usage."""
    nothing = (
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "content",
        "response_id",
        "finish_reason",
        "usage",
    )
    empty = dict.fromkeys((*nothing, "cost_usd", "first_byte_ms", "http_status"))
    return row(status=status, error=error, used=False, **(empty | changes))


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """A JSON Lines file of these rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
