"""Celery's pool of threads, with a consumer that notices at once when a slot is free again.

Without prefetching the consumer fetches the next message only when a slot is free, and looks for that once a second
or when something wakes its loop; a slot that becomes free in a thread does not. Small shards came two a second.
"""

from typing import Any

from celery.concurrency.thread import ApplyResult, TaskPool
from kombu.asynchronous import get_event_loop


class ShardPool(TaskPool):  # type: ignore[misc]
    """Wakes the consumer's loop after each task."""

    def on_apply(self, *args: Any, **kwargs: Any) -> ApplyResult:
        applied = super().on_apply(*args, **kwargs)
        # The future is done after the slot has been given back.
        applied.f.add_done_callback(_wake_consumer)
        return applied


def _wake_consumer(_: object) -> None:
    loop = get_event_loop()
    if loop is not None:
        loop.call_soon(_nothing)


def _nothing() -> None:
    """What the loop does when it is woken; then it looks for free slots by itself."""
