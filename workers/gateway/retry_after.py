"""How long a gateway asks to wait, from the headers it says it in."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST_S = 366 * 86400.0
_EARLIEST_EPOCH_S = 1e9
"""A 'wait' of more than 30 years is a point in time (seconds, or milliseconds, since 1970)."""
_EARLIEST_EPOCH_MS = 1e11

_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+", re.ASCII)
_STEP = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])", re.ASCII)
_RESET = "x-ratelimit-reset"


def retry_after_s(headers: Mapping[str, str], *, rate_limited: bool, now: datetime) -> float | None:
    """Seconds to wait, or `None` where the gateway did not say.

    In this order: `retry-after-ms`; `Retry-After` in seconds (fractions too) or as an HTTP date; and for a
    rate limit `x-ratelimit-reset-*` (`12ms`, `6m0s`, `1.5`), the longest of those that are used up. They
    stand on other answers too, where they ask for nothing. Keys of `headers` are in lower case; a date counts from
    the answer's own `Date`, so that a wrong clock here does no harm, else from `now`.
    """
    now = _date(headers.get("date", "")) or now
    waits = [
        _milliseconds(headers.get("retry-after-ms", "")),
        _wait_s(headers.get("retry-after", ""), now),
        _longest(_wait_s(value, now) for value in _resets(headers)) if rate_limited else None,
    ]
    said = next((wait for wait in waits if wait is not None), None)
    return None if said is None else min(max(said, 0.0), _LONGEST_S)


def _resets(headers: Mapping[str, str]) -> list[str]:
    """Values of `x-ratelimit-reset` and `x-ratelimit-reset-KIND`: the used-up kinds, where any is known."""
    resets = {
        name.removeprefix(_RESET): value
        for name, value in headers.items()
        if name == _RESET or name.startswith(f"{_RESET}-")
    }
    used_up = [
        value
        for kind, value in resets.items()
        if _number(headers.get(f"x-ratelimit-remaining{kind}", "")) == 0
    ]
    return used_up or list(resets.values())


def _longest(waits: Iterable[float | None]) -> float | None:
    return max((wait for wait in waits if wait is not None), default=None)


def _milliseconds(text: str) -> float | None:
    milliseconds = _number(text)
    return None if milliseconds is None else milliseconds / 1000


def _wait_s(text: str, now: datetime) -> float | None:
    """Seconds from a number, a duration, a point in time since 1970, or a date."""
    seconds = _number(text)
    if seconds is None:
        seconds = _duration_s(text)
    if seconds is not None:
        if seconds >= _EARLIEST_EPOCH_MS:
            seconds /= 1000
        return seconds - now.timestamp() if seconds >= _EARLIEST_EPOCH_S else seconds
    date = _date(text)
    return None if date is None else (date - now).total_seconds()


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _duration_s(text: str) -> float | None:
    text = text.strip().lower()
    if len(text) > 64 or _DURATION.fullmatch(text) is None:
        return None
    return sum(float(amount) * _UNIT_S[unit] for amount, unit in _STEP.findall(text))


def _date(text: str) -> datetime | None:
    """An HTTP date, or an ISO one as some gateways write it."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            date = read(text)
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
        return date if date.tzinfo else date.replace(tzinfo=UTC)
    return None
