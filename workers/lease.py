"""A worker's lease in Postgres: it guards what the worker has in flight, and ends by itself when the worker does."""

import asyncio
import logging
from collections.abc import Callable

import psycopg
from psycopg_pool import AsyncConnectionPool

from db import work
from db.connection import AsyncConnection
from workers.waiting import clock_s

log = logging.getLogger(__name__)

# Much shorter than a lease: the heartbeat also says how many calls are in flight.
BEAT_S = 2.0


class Lease:
    """Renewed by a heartbeat; over for this process no later than for anybody else."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        *,
        worker: str,
        lease_s: float,
        busy: Callable[[], tuple[int, int]],
    ) -> None:
        """`busy`: calls in flight, and jobs that wait for the limiter."""
        self._pool = pool
        self._worker = worker
        self._lease_s = lease_s
        self._busy = busy
        self._over = 0.0
        self.number = 0
        """Grows when the lease was over: what was held under the one before may have been given away."""

    @property
    def left_s(self) -> float:
        return max(self._over - clock_s(), 0.0)

    def still(self, number: int) -> bool:
        """Whether it is the one of that number, and not over."""
        return number == self.number and clock_s() <= self._over

    async def keep(self) -> None:
        """Renew it for ever."""
        between_s = min(self._lease_s / 3, BEAT_S)
        pause_s = between_s
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self.renew()
                pause_s = between_s
            except psycopg.Error as error:
                log.warning("No heartbeat (%s); trying again.", str(error).strip())
                # Soon: after Postgres was away, each dead connection of the pool fails once.
                pause_s = between_s / 10

    async def renew(self) -> None:
        async with self._pool.connection() as connection:
            # Measured from before the request: the lease in Postgres never ends sooner than the worker believes.
            renewed = clock_s()
            in_flight, waiting = self._busy()
            self.number = await work.heartbeat(
                connection,
                worker=self._worker,
                lease_s=self._lease_s,
                lease_no=self.number,
                in_flight=in_flight,
                waiting=waiting,
            )
        self._over = renewed + self._lease_s
