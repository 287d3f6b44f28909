"""The limiter on a clock that the tests own: Redis still runs every script, only its TIME is theirs."""

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis

from workers.limiter import Limiter, script_text

SERVER_CLOCK = "redis.call('TIME')"
TEST_CLOCK = "{math.floor(ARGV[#ARGV] / 1000), (ARGV[#ARGV] % 1000) * 1000}"


class ClockedLimiter(Limiter):
    """`clock` gives seconds; each script gets them as a last argument in place of the server's clock."""

    def __init__(self, redis: Redis, clock: Callable[[], float], **options: Any) -> None:
        super().__init__(redis, **options)
        self.clock = clock
        self.asked: Counter[str] = Counter()
        for name in ("acquire", "settle", "view"):
            source = script_text(name)
            assert source.count(SERVER_CLOCK) == 1
            setattr(self, f"_{name}", redis.register_script(source.replace(SERVER_CLOCK, TEST_CLOCK)))

    async def _run(self, script: Any, lane: str, *args: int | str) -> Any:
        self.asked["scripts"] += 1
        return await super()._run(script, lane, *args, round(self.clock() * 1000))


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer as soon as nobody waits for Redis."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.waiting_for_redis = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if self.loop.waiting_for_redis:
            return super().select(0 if timeout == 0 else 1)
        ready = super().select(0)
        if not ready and timeout:
            self.loop.now += timeout
        return ready


class VirtualLimiter(ClockedLimiter):
    """On a `VirtualLoop`: the scripts see the loop's time, and that time stands still while one runs."""

    def __init__(self, redis: Redis, **options: Any) -> None:
        self.loop = asyncio.get_running_loop()
        assert isinstance(self.loop, VirtualLoop)
        super().__init__(redis, self.loop.time, **options)

    async def _run(self, script: Any, lane: str, *args: int | str) -> Any:
        assert isinstance(self.loop, VirtualLoop)
        self.loop.waiting_for_redis += 1
        try:
            return await super()._run(script, lane, *args)
        finally:
            self.loop.waiting_for_redis -= 1
