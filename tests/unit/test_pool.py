"""The worker's pool tells the consumer's loop of every slot that is free again."""

import threading
from collections.abc import Iterator

import pytest
from kombu.asynchronous import set_event_loop

from workers.pool import ShardPool


class Loop:
    """What a consumer's loop is asked to do."""

    def __init__(self) -> None:
        self.woken = threading.Semaphore(0)

    def call_soon(self, callback: object) -> None:
        self.woken.release()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    set_event_loop(loop)
    yield loop
    set_event_loop(None)


def test_the_loop_is_woken_after_each_task_and_not_before(loop: Loop) -> None:
    pool = ShardPool(1)
    may_end = threading.Event()
    applied = pool.on_apply(lambda *_, **__: may_end.wait(), (), {})
    assert not loop.woken.acquire(blocking=False)
    may_end.set()
    assert loop.woken.acquire(timeout=60)
    assert applied.f.done()
    pool.on_stop()
