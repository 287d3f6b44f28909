"""Ctrl-C and SIGTERM while something must not be left half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Neither is heard meanwhile: for what takes moments, and would leave processes behind."""
    before = [signal.getsignal(number) for number in _SIGNALS]
    hear_no_more()
    try:
        yield
    finally:
        if _can_choose():
            for number, handler in zip(_SIGNALS, before, strict=True):
                signal.signal(number, handler)


def hear_no_more() -> None:
    """For the rest of a process that is ending."""
    if _can_choose():
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _can_choose() -> bool:
    return threading.current_thread() is threading.main_thread()
