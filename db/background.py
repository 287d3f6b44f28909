"""A connection at work beside the program: what it shall do, one after another, in a thread of its own."""

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")

# Besides the one that is given next; more would only take memory.
_MOST_WAITING = 2
# Postgres stands still until the thread has its turn to answer it, which by default takes 5 ms each time.
_SWITCH_S = 0.0002


class Background:
    """Use it with `with`: at its end all is done, or, after an error on either side, nothing more will be."""

    def __init__(self) -> None:
        self._interval_s = sys.getswitchinterval()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="paretoken-postgres")
        self._waiting: deque[Future[object]] = deque()
        self._failed: BaseException | None = None

    def __enter__(self) -> "Background":
        sys.setswitchinterval(_SWITCH_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.settle()
        finally:
            self._thread.shutdown(cancel_futures=True)
            sys.setswitchinterval(self._interval_s)

    def ask(
        self, work: Callable[_Given, _Made], *args: _Given.args, **named: _Given.kwargs
    ) -> "Future[_Made]":
        """Do this after all that was given before; if something failed, raise that instead."""
        return self._thread.submit(self._done, partial(work, *args, **named))

    def give(self, work: Callable[_Given, object], *args: _Given.args, **named: _Given.kwargs) -> None:
        """The same of what gives no answer; wait while much is open, and raise what an earlier one raised."""
        self.settle(_MOST_WAITING)
        self._waiting.append(self.ask(work, *args, **named))

    def settle(self, most: int = 0) -> None:
        """Wait until no more than so many of the given are open, and raise what one of the others raised."""
        while len(self._waiting) > most or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()

    def _done(self, work: Callable[[], _Made]) -> _Made:
        # After an error Postgres refuses whatever comes, which says nothing of the reason.
        if self._failed is not None:
            raise self._failed
        try:
            return work()
        except BaseException as error:
            self._failed = error
            raise
