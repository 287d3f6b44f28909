"""The shared limiter, for who watches it and for who frees what nobody holds."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import redis.asyncio
from redis.exceptions import RedisError

from workers.limiter import Limiter
from workers.limits import LimiterUnavailable, LimiterView

Slot = tuple[str, str]
"""(Name of a lane, ticket of a call)."""


def lane_views(broker_url: str, lane_names: Sequence[str]) -> Sequence[LimiterView] | None:
    """One view a lane, in their order; None where the broker does not answer. Not from inside an event loop."""
    try:
        return asyncio.run(_views(broker_url, lane_names))
    except (LimiterUnavailable, RedisError, OSError):
        return None


async def _views(broker_url: str, lane_names: Sequence[str]) -> list[LimiterView]:
    async with _limiter(broker_url) as limiter:
        return [await limiter.view(name) for name in lane_names]


def free_slots(broker_url: str, slots: Iterable[Slot]) -> None:
    """End these calls in the limiter; they stay charged with what was expected of them. Not from inside an event loop.

    Raises:
        LimiterUnavailable: no answer from the broker.
    """
    asyncio.run(_free(broker_url, slots))


async def _free(broker_url: str, slots: Iterable[Slot]) -> None:
    async with _limiter(broker_url) as limiter:
        # At once: the limiter sends those of one lane in one script.
        await asyncio.gather(
            *(limiter.settle(lane, ticket, tokens=None, result="other") for lane, ticket in slots)
        )


@asynccontextmanager
async def _limiter(broker_url: str) -> AsyncIterator[Limiter]:
    client = redis.asyncio.Redis.from_url(broker_url, socket_timeout=2, socket_connect_timeout=2)
    try:
        yield Limiter(client)
    finally:
        await client.aclose()
