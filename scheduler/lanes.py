"""The shared limiter, for who watches it and for the reaper."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import redis.asyncio
from redis.exceptions import RedisError

from workers.limiter import Limiter, LimiterUnavailable, LimiterView


def lane_views(broker_url: str, lane_names: Sequence[str]) -> Sequence[LimiterView] | None:
    """One view a lane, in their order; None where the broker does not answer. Not from inside an event loop."""
    try:
        return asyncio.run(_views(broker_url, lane_names))
    except (LimiterUnavailable, RedisError, OSError):
        return None


async def _views(broker_url: str, lane_names: Sequence[str]) -> list[LimiterView]:
    async with _limiter(broker_url) as limiter:
        return [await limiter.view(name) for name in lane_names]


def free_slots(broker_url: str, tickets: Sequence[tuple[str, str]]) -> bool:
    """End the calls of these (lane name, ticket), charged with what was expected; False without the broker's answer.

    Their slots would outlast the calls' time-out, and nobody is left who could tell. Not from inside an event loop.
    """
    try:
        asyncio.run(_free(broker_url, tickets))
    except (LimiterUnavailable, RedisError, OSError):
        return False
    return True


async def _free(broker_url: str, tickets: Sequence[tuple[str, str]]) -> None:
    async with _limiter(broker_url) as limiter:
        for lane, ticket in tickets:
            await limiter.settle(lane, ticket, tokens=None, result="other")


@asynccontextmanager
async def _limiter(broker_url: str) -> AsyncIterator[Limiter]:
    client = redis.asyncio.Redis.from_url(broker_url, socket_timeout=2, socket_connect_timeout=2)
    try:
        yield Limiter(client)
    finally:
        await client.aclose()
