"""Waiting on the worker's loop: for Postgres, for the last of some tasks, by a clock that suspension does not stop."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from psycopg.errors import ProgramLimitExceeded
from psycopg_pool import PoolClosed

from db.connection import AWAY

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_RETRY_S = 1.0


def clock_s() -> float:
    """A clock that only goes forward, and where the system has one, also while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


async def patiently(move: Callable[[], Awaitable[Result]]) -> Result:
    """Make a move in Postgres, again after a moment while Postgres is away."""
    while True:
        try:
            return await move()
        except (PoolClosed, ProgramLimitExceeded):
            # Of the same kind as those below, but no other time is better for them.
            raise
        except AWAY as error:
            log.warning("Postgres is away (%s); trying again.", str(error).strip())
            await asyncio.sleep(_RETRY_S)


async def unless(stopped: "asyncio.Future[None]", work: Coroutine[Any, Any, Result]) -> Result | None:
    """The result of `work`, or None when the worker stops first; `work` is cancelled then."""
    task = asyncio.create_task(work)
    ends: set[asyncio.Future[Any]] = {task, stopped}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def end_all(tasks: set[asyncio.Task[Any]], deadline_s: float) -> None:
    """Wait for all of them, and cancel those that take longer."""
    if tasks:
        await asyncio.wait(tasks, timeout=max(deadline_s, 0))
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=10)


async def essential(service: Coroutine[Any, Any, None]) -> None:
    """A service that ends by an error of ours takes the process with it: half a worker would only hold leases."""
    try:
        await service
    except asyncio.CancelledError:
        raise
    except BaseException:
        log.critical("A service of the worker has failed; the process ends.", exc_info=True)
        os._exit(70)
