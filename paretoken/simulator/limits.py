"""Requests and tokens per minute, enforced over a true sliding window."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from paretoken.simulator.wire import ApiError, Refused

WINDOW_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Most requests and tokens in any 60 seconds, per key and model. `None` is no limit."""

    requests: int | None = None
    tokens: int | None = None


class Window:
    """What was admitted for one key and model during the last 60 seconds. Times are monotonic seconds."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._admitted: deque[tuple[float, int]] = deque()
        self._tokens = 0

    def admit(self, *, now: float, tokens: int) -> Mapping[str, str]:
        """Count one request and give its `x-ratelimit-*` headers. Raises `Refused` (429) without counting.

        A request counts with all its tokens from the moment it is admitted until 60 s later.
        """
        while self._admitted and self._admitted[0][0] <= now - WINDOW_S:
            self._tokens -= self._admitted.popleft()[1]
        wait_s = self._wait_s(now, tokens)
        if wait_s > 0:
            raise Refused(self._refusal(now, tokens, wait_s))
        self._admitted.append((now, tokens))
        self._tokens += tokens
        return self._headers(now)

    def _wait_s(self, now: float, tokens: int) -> float:
        """Seconds until a request with this many tokens fits; one that never fits is told a whole window."""
        spare_requests = math.inf if self._limits.requests is None else self._limits.requests
        spare_tokens = math.inf if self._limits.tokens is None else self._limits.tokens
        if tokens > spare_tokens or spare_requests < 1:
            return WINDOW_S
        requests_left, tokens_left = len(self._admitted), self._tokens
        wait_s = 0.0
        for admitted_at, used in self._admitted:
            if requests_left < spare_requests and tokens_left + tokens <= spare_tokens:
                break
            requests_left -= 1
            tokens_left -= used
            wait_s = admitted_at + WINDOW_S - now
        return wait_s

    def _refusal(self, now: float, tokens: int, wait_s: float) -> ApiError:
        waits = {"retry-after": str(math.ceil(wait_s)), "retry-after-ms": str(math.ceil(wait_s * 1000))}
        return ApiError(
            status=429,
            code="rate_limit_exceeded",
            type="requests" if self._limits.tokens is None else "tokens",
            message=f"Rate limit reached: {self._limits.requests} requests and {self._limits.tokens} tokens "
            f"per minute, asked for {tokens} tokens. Try again in {wait_s:.3f}s.",
            headers={**self._headers(now), **waits},
        )

    def _headers(self, now: float) -> dict[str, str]:
        headers = {}
        reset = _duration(self._admitted[-1][0] + WINDOW_S - now if self._admitted else 0.0)
        for name, limit, used in (
            ("requests", self._limits.requests, len(self._admitted)),
            ("tokens", self._limits.tokens, self._tokens),
        ):
            if limit is not None:
                headers[f"x-ratelimit-limit-{name}"] = str(limit)
                headers[f"x-ratelimit-remaining-{name}"] = str(limit - used)
                headers[f"x-ratelimit-reset-{name}"] = reset
        return headers


def _duration(seconds: float) -> str:
    """OpenAI's way of writing a duration: `12ms`, `1.5s`, `6m0s`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
