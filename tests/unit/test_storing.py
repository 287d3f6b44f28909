"""What a worker holds and gives no result of is handed back at once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg
import pytest

from workers.storing import held


class Leases:
    """Two trials to take; Postgres is away the first time that they are handed back."""

    def __init__(self) -> None:
        self.asked, self.granted = asyncio.Event(), asyncio.Event()
        self.held, self.finished = asyncio.Event(), asyncio.Event()
        self.tried = 0
        self.back: Sequence[int] = []

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[None]:
        """In the pool's place."""
        yield

    async def lease(self, _: object) -> list[int]:
        self.asked.set()
        await self.granted.wait()
        return [7, 8]

    async def hand_back(self, _: object, taken: Sequence[int]) -> None:
        self.tried += 1
        if self.tried == 1:
            raise psycopg.OperationalError("the connection is lost")
        self.back = taken

    async def work(self, error: BaseException | None) -> None:
        async with held(cast(Any, self), self.lease, self.hand_back):
            self.held.set()
            if error is not None:
                raise error
            await self.finished.wait()


@pytest.mark.parametrize(
    ("error", "back"),
    [(asyncio.CancelledError(), [7, 8]), (psycopg.DataError("refused"), [7, 8]), (None, [])],
)
async def test_whatever_ends_the_work(error: BaseException | None, back: list[int]) -> None:
    leases = Leases()
    leases.granted.set()
    leases.finished.set()
    task = asyncio.create_task(leases.work(error))
    await asyncio.gather(task, return_exceptions=True)
    assert leases.back == back
    assert task.cancelled() == isinstance(error, asyncio.CancelledError)


@pytest.mark.parametrize("taken", [True, False], ids=["at work", "while it is taken"])
async def test_a_worker_that_is_stopped(taken: bool) -> None:
    leases = Leases()
    task = asyncio.create_task(leases.work(None))
    await leases.asked.wait()
    if taken:
        leases.granted.set()
        await leases.held.wait()
    task.cancel()
    # What Postgres was asked for may be granted all the same.
    leases.granted.set()
    await asyncio.gather(task, return_exceptions=True)
    assert (leases.back, task.cancelled()) == ([7, 8], True)


async def test_nothing_taken_is_not_handed_back() -> None:
    leases = Leases()

    async def refuse(_: object) -> list[int]:
        raise psycopg.OperationalError("away")

    with pytest.raises(psycopg.OperationalError, match="away"):
        async with held(cast(Any, leases), refuse, leases.hand_back):
            pass
    assert leases.tried == 0
