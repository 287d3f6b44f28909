"""Group commit: starts and settlements of many calls collect for a moment and share one durable transaction.

Whoever waits for an item goes on only after its commit. The guarantees are those of one transaction per call: each
item has its own guard and its own result. An error inside a batch is found by halving it; a batch whose COMMIT
was lost with the connection is sent again, which every statement allows.
"""

import asyncio
import logging
from dataclasses import dataclass, field, replace

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed

from analysis.usage import UNKNOWN_USAGE, Usage
from db import work
from db.connection import AWAY, AsyncConnection
from db.settlement import Settlement
from db.work import CallStart
from workers.storing import first_line

log = logging.getLogger(__name__)

# After a quiet time an item waits so long for others, while many come until the batches are so far apart: a transaction
# costs its client several milliseconds.
COLLECT_S = 0.01
APART_S = 0.05
MOST_ITEMS = 500
_RETRY_S = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class _Waiting:
    """An item and who waits for it: True when it is committed, False for a start that was not allowed."""

    item: CallStart | Settlement
    result: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Committer:
    """The one writer of calls in a worker process."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], *, worker: str) -> None:
        self._pool = pool
        self._worker = worker
        self._queue: list[_Waiting] = []
        self._filled = asyncio.Event()
        self.due: asyncio.Queue[int] = asyncio.Queue()
        """Trials whose next step can be taken, in the order in which they became due."""

        self.judged = asyncio.Event()
        """Set when calls of judges were settled."""

    async def start(self, start: CallStart) -> bool:
        """Commit the call row; False where the fence, the lease or the run's state forbids the call."""
        return await self._put(start)

    async def settle(self, settlement: Settlement) -> None:
        """Commit the outcome of a call."""
        await self._put(settlement)

    async def _put(self, item: CallStart | Settlement) -> bool:
        waiting = _Waiting(item=item)
        self._queue.append(waiting)
        self._filled.set()
        # A caller that is cancelled does not take the item back: the call it stands for has been made.
        return await waiting.result

    async def run(self) -> None:
        """Commit what collects, until cancelled."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            await self._filled.wait()
            await asyncio.sleep(max(COLLECT_S, began + APART_S - loop.time()))
            began = loop.time()
            batch, self._queue = self._queue[:MOST_ITEMS], self._queue[MOST_ITEMS:]
            if not self._queue:
                self._filled.clear()
            await self._commit(batch)

    async def _commit(self, batch: list[_Waiting]) -> None:
        while True:
            try:
                started, due = await self._transaction(batch)
                break
            except PoolClosed:
                raise
            except psycopg.errors.ProgramLimitExceeded as error:
                # An OperationalError too, but the same batch would never pass.
                await self._halve(batch, error)
                return
            except AWAY as error:
                log.warning(
                    "Postgres did not take %d calls (%s); trying again.", len(batch), first_line(error)
                )
                await asyncio.sleep(_RETRY_S)
            except psycopg.Error as error:
                await self._halve(batch, error)
                return
        for waiting in batch:
            # Nobody waits any more where the caller was cancelled.
            if not waiting.result.done():
                item = waiting.item
                waiting.result.set_result(
                    isinstance(item, Settlement) or (item.job, item.dispatch_no) in started
                )
        for trial in due:
            self.due.put_nowait(trial)
        if any(isinstance(w.item, Settlement) and w.item.judging is not None for w in batch):
            self.judged.set()

    async def _transaction(self, batch: list[_Waiting]) -> tuple[set[tuple[int, int]], list[int]]:
        async with self._pool.connection() as connection:
            return await work.commit(
                connection,
                worker=self._worker,
                starts=[w.item for w in batch if isinstance(w.item, CallStart)],
                settlements=[w.item for w in batch if isinstance(w.item, Settlement)],
            )

    async def _halve(self, batch: list[_Waiting], error: psycopg.Error) -> None:
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._commit(batch[:middle])
            await self._commit(batch[middle:])
            return
        [waiting] = batch
        item = waiting.item
        if isinstance(item, CallStart) or item.error == "not_storable":
            if not waiting.result.done():
                waiting.result.set_exception(error)
            return
        log.error(
            "The outcome of job %d cannot be stored (%s); kept without its text.",
            item.job,
            first_line(error),
        )
        await self._commit([replace(waiting, item=_without_text(item, error))])


def _without_text(settlement: Settlement, error: psycopg.Error) -> Settlement:
    """The same outcome without the gateway's own words; tokens that no column can hold are unknown."""
    return replace(
        settlement,
        # What may have been paid stays so.
        status="unknown" if settlement.status == "unknown" else "error",
        next_state="failed",
        failures=1,
        error="not_storable",
        message=f"The gateway's answer cannot be stored: {first_line(error)}",
        content=None,
        tool_calls=None,
        once=False,
        response_id=None,
        finish_reason=None,
        raw_usage=None,
        usage=_storable(settlement.usage),
        later_turns=[
            replace(turn, content=None, raw_usage=None, usage=_storable(turn.usage))
            for turn in settlement.later_turns
        ],
        files={},
    )


def _storable(usage: Usage) -> Usage:
    fits = all(value is None or value < 2**31 for value in vars(usage).values())
    return usage if fits else UNKNOWN_USAGE
