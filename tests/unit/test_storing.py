"""What a worker holds and gives no result of is handed back at once."""

import asyncio

import psycopg
import pytest

from workers.storing import handed_back


class Held:
    """Counts how often it was handed back; Postgres is away the first time."""

    def __init__(self) -> None:
        self.tried = 0

    async def hand_back(self) -> None:
        self.tried += 1
        if self.tried == 1:
            raise psycopg.OperationalError("the connection is lost")


@pytest.mark.parametrize("error", [asyncio.CancelledError(), psycopg.DataError("refused"), None])
async def test_whatever_ends_the_work(error: BaseException | None) -> None:
    held = Held()
    reached = asyncio.Event()

    async def work() -> None:
        async with handed_back(held.hand_back):
            reached.set()
            if error is not None:
                raise error

    task = asyncio.create_task(work())
    await reached.wait()
    await asyncio.gather(task, return_exceptions=True)
    assert held.tried == (0 if error is None else 2)
    assert task.cancelled() == isinstance(error, asyncio.CancelledError)


async def test_a_worker_that_is_stopped_in_the_middle() -> None:
    held = Held()
    reached = asyncio.Event()

    async def work() -> None:
        async with handed_back(held.hand_back):
            reached.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await reached.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (held.tried, task.cancelled()) == (2, True)
