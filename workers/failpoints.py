"""Places where a test ends or freezes this process: `PARETOKEN_FAILPOINT=name:nth`, or `name:nth:SIGSTOP`.

Each place stands between two steps that must not belong together; the fault suite proves that they need not. Nothing
but a test sets the variable, and without it a place costs one `if`.
"""

import os
import signal

VARIABLE = "PARETOKEN_FAILPOINT"

NAMES = (
    "claimed",  # jobs are running, nothing else has happened
    "granted",  # the limiter has given a slot
    "call_started",  # the call row is committed, nothing was sent
    "answered",  # the gateway's answer is here, and nowhere else
    "settled",  # the outcome is committed, the limiter does not know
    "advance_decided",  # a trial's next step is known, nothing is committed
    "advance_committed",  # the next round or the answer is committed
    "judged",  # verdicts are known, nothing is committed
    "dispatch_committed",  # jobs are queued, their messages not sent
    "reaper_marked",  # a flushed broker was noticed and marked, its jobs not requeued
    "reaper_released",  # lost workers' jobs are free, lost messages not looked for
)


def reach(name: str) -> None:
    """Be at the place `name`: goes on, unless this is the armed place for the nth time."""
    if _armed:
        _count(name)


def _count(name: str) -> None:
    armed, nth, number = _armed[0]
    if name == armed:
        _seen.append(name)
        if len(_seen) == nth:
            signal.raise_signal(number)  # to this thread, which goes no further


def arm(text: str | None) -> None:
    """Read the variable's text; nothing is armed without one.

    Raises:
        ValueError: there is no such place.
    """
    if not text:
        return
    name, nth, *rest = text.split(":")
    if name not in NAMES:
        raise ValueError(f"{VARIABLE}={text}: no such place. There are {', '.join(NAMES)}.")
    _armed.append((name, int(nth), signal.Signals[rest[0]] if rest else signal.SIGKILL))


_armed: list[tuple[str, int, signal.Signals]] = []
_seen: list[str] = []
arm(os.environ.get(VARIABLE))
