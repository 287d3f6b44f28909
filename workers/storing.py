"""Storing many results at once, of which Postgres may refuse one; handing back what there will be no result of."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed

from db.connection import AsyncConnection
from workers.waiting import patiently

log = logging.getLogger(__name__)

Item = TypeVar("Item")

_HAND_BACK_S = 10.0


@asynccontextmanager
async def held(
    pool: AsyncConnectionPool[AsyncConnection],
    lease: Callable[[AsyncConnection], Awaitable[Sequence[Item]]],
    hand_back: Callable[[AsyncConnection, Sequence[Item]], Awaitable[None]],
) -> AsyncIterator[Sequence[Item]]:
    """What is leased; handed back where the work with it fails or is cancelled, be it while it is taken.

    Whoever comes next need not wait for the end of the lease then.
    """

    async def take() -> Sequence[Item]:
        async with pool.connection() as connection:
            return await lease(connection)

    async def give_back(taken: Sequence[Item]) -> None:
        async with pool.connection() as connection:
            await hand_back(connection, taken)

    taking = asyncio.create_task(take())
    try:
        yield await asyncio.shield(taking)
    except BaseException:
        with suppress(TimeoutError, psycopg.Error):
            async with asyncio.timeout(_HAND_BACK_S):
                if taken := await taking:
                    await patiently(lambda: give_back(taken))
        raise


async def store(
    items: Sequence[Item],
    commit: Callable[[Sequence[Item]], Awaitable[None]],
    given_up: Callable[[Item, str], Item],
) -> None:
    """Commit them together; where Postgres refuses that, each alone, and of a refused one what `given_up` makes of it.

    Args:
        given_up: from an item, and why it cannot be stored, to what can be.
    """
    try:
        await patiently(lambda: commit(items))
    except PoolClosed:
        raise
    except psycopg.Error as error:
        log.exception("Postgres refuses %d results.", len(items))
        if len(items) > 1:
            for item in items:
                await store([item], commit, given_up)
            return
        await _give_up(given_up(items[0], f"cannot be stored: {first_line(error)}"), commit)


async def _give_up(item: Item, commit: Callable[[Sequence[Item]], Awaitable[None]]) -> None:
    try:
        await patiently(lambda: commit([item]))
    except PoolClosed:
        raise
    except psycopg.Error:
        # Whoever finds its lease over tries again; the other items do not wait for that.
        log.exception("Postgres refuses that a result cannot be stored, too.")


def first_line(error: Exception) -> str:
    """What Postgres says without its context; where it says nothing, the kind of the error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
