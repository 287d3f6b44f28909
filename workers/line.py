"""What one process does together: its waiters for a lane stand in one line, and what is said at once is said as one."""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from workers.limits import STOPPED, Asked, Decision, LimiterUnavailable, Limits

Item = TypeVar("Item")

MOST_AT_ONCE = 100
"""Redis does nothing else while it decides."""
_LEAST_WAIT_S = 0.25
"""Before it is worth asking again, where no answer says more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Waiter:
    asked: Asked
    deadline: float
    answer: "asyncio.Future[Decision | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """None: it is the first one now, and asks."""


class Line:
    """The waiters of one process for one lane. Only the first one asks, in one go for those behind it too.

    `ask` gives a decision for each call up to the first refused one, and may raise `LimiterUnavailable`; `give_up`
    hands back a slot that nobody waits for any more.
    """

    def __init__(
        self,
        ask: Callable[[Limits, Sequence[Asked]], Awaitable[Sequence[Decision]]],
        give_up: Callable[[str], Awaitable[None]],
        *,
        max_wait_s: float,
    ) -> None:
        self._ask = ask
        self._give_up = give_up
        self._max_wait_s = max_wait_s
        self._waiters: deque[_Waiter] = deque()
        self._free = asyncio.Event()
        self._refusal = Decision(granted=False, wait_s=_LEAST_WAIT_S, reason="concurrency")
        self._refused_until = 0.0
        self._ask_at = 0.0
        self._stopped = False
        self._returning: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters)

    def learn(self, free: int) -> None:
        """So much concurrency is left."""
        if free > 0:
            self._free.set()
        else:
            self._close()

    def _close(self) -> None:
        """Nothing is free; but who was let go by `stop` is not held up."""
        if not self._stopped:
            self._free.clear()

    def stop(self) -> None:
        """Let everybody go."""
        self._stopped = True
        self._free.set()

    async def enter(self, asked: Asked) -> Decision:
        """Stand in the line until there is an answer other than 'come back soon', or the longest wait is over."""
        deadline = asyncio.get_running_loop().time() + self._max_wait_s
        waiter = _Waiter(asked=asked, deadline=deadline)
        self._waiters.append(waiter)
        try:
            decision = await waiter.answer if len(self._waiters) > 1 else None
            while decision is None:
                decision = await self._be_first(waiter)
            return decision
        finally:
            self._leave(waiter)

    def _leave(self, waiter: _Waiter) -> None:
        first = bool(self._waiters) and self._waiters[0] is waiter
        with suppress(ValueError):
            self._waiters.remove(waiter)
        if first:
            self._promote()

    def _promote(self) -> None:
        if self._waiters and not self._waiters[0].answer.done():
            self._waiters[0].answer.set_result(None)

    async def _be_first(self, first: _Waiter) -> Decision | None:
        """Ask when it is worth it. None: come back soon."""
        loop = asyncio.get_running_loop()
        if not self._free.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(first.deadline, self._ask_at)):
                    await self._free.wait()
        # Those who come at this very moment are asked for too.
        await asyncio.sleep(0)
        if self._stopped:
            return STOPPED
        if loop.time() >= first.deadline and not self._free.is_set():
            left_s = max(_LEAST_WAIT_S, self._refused_until - loop.time())
            return replace(self._refusal, wait_s=left_s)
        waiters = self._together(first)
        try:
            decisions = await self._ask(first.asked.limits, [waiter.asked for waiter in waiters])
        except LimiterUnavailable as error:
            for waiter in waiters[1:]:
                self._answer(waiter, error)
            raise
        return self._tell(waiters, decisions)

    def _together(self, first: _Waiter) -> list[_Waiter]:
        """The first one and who is behind it under the same limits."""
        same = itertools.takewhile(lambda waiter: waiter.asked.limits == first.asked.limits, self._waiters)
        return list(itertools.islice(same, MOST_AT_ONCE))

    def _tell(self, waiters: Sequence[_Waiter], decisions: Sequence[Decision]) -> Decision | None:
        """Hand out the answers; give the first one its own."""
        first = None
        now = asyncio.get_running_loop().time()
        self._ask_at = now + _LEAST_WAIT_S
        for number, (waiter, decision) in enumerate(zip(waiters, decisions, strict=False)):
            if not decision.granted:
                self._refusal = decision
                self._ask_at = self._refused_until = now + decision.wait_s
                self._close()
                if decision.wait_s <= self._max_wait_s:
                    break
            if number == 0:
                first = decision
            elif not self._answer(waiter, decision) and decision.granted:
                self._return(waiter.asked.request_id)
        return first

    def _return(self, request_id: str) -> None:
        """Give up the slot of one who has left; nobody waits for that."""

        async def give_up() -> None:
            with suppress(LimiterUnavailable):  # its lease ends by itself
                await self._give_up(request_id)

        returning = asyncio.create_task(give_up())
        self._returning.add(returning)
        returning.add_done_callback(self._returning.discard)

    def _answer(self, waiter: _Waiter, answer: Decision | LimiterUnavailable) -> bool:
        """Out of the line with its answer; False where nobody waits for it any more."""
        with suppress(ValueError):
            self._waiters.remove(waiter)
        if waiter.answer.done():
            return False
        if isinstance(answer, Decision):
            waiter.answer.set_result(answer)
        else:
            waiter.answer.set_exception(answer)
        return True


class Together(Generic[Item]):
    """Items that come at the same moment are told in one go; while they are, the next ones gather."""

    def __init__(self, tell: Callable[[Sequence[Item]], Awaitable[None]]) -> None:
        self._tell = tell
        self._items: list[tuple[Item, asyncio.Future[None]]] = []
        self._telling: asyncio.Task[None] | None = None

    async def put(self, item: Item) -> None:
        """Wait until it has been told; raises what `tell` raises. A caller that is cancelled does not take it back."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._items.append((item, told))
        if self._telling is None:
            self._telling = asyncio.create_task(self._run())
        await told

    async def _run(self) -> None:
        batch: list[tuple[Item, asyncio.Future[None]]] = []
        try:
            while self._items:
                batch, self._items = self._items[:MOST_AT_ONCE], self._items[MOST_AT_ONCE:]
                failure = None
                try:
                    await self._tell([item for item, _ in batch])
                except Exception as error:  # noqa: BLE001 - whoever waits gets it
                    failure = error
                # One that is done belongs to a caller who was cancelled.
                for told in (told for _, told in batch if not told.done()):
                    if failure is None:
                        told.set_result(None)
                    else:
                        told.set_exception(failure)
        finally:
            self._telling = None
            # Whom nobody has answered, because this was cancelled; on the others it has no effect.
            for _, told in (*batch, *self._items):
                told.cancel()
