"""The shared limiter's view of lanes, for who watches."""

import asyncio
from collections.abc import Sequence

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
    client = redis.asyncio.Redis.from_url(broker_url, socket_timeout=2, socket_connect_timeout=2)
    try:
        limiter = Limiter(client)
        return [await limiter.view(name) for name in lane_names]
    finally:
        await client.aclose()
