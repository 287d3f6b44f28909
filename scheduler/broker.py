"""The broker's URL."""

import redis

from scheduler.errors import BrokerUrlInvalid


def require_readable(broker_url: str) -> None:
    """Raise `BrokerUrlInvalid` for a parameter that redis-py does not know, which it tells only of a connection."""
    try:
        redis.Redis.from_url(broker_url).connection_pool.make_connection()
    except (TypeError, ValueError):
        raise BrokerUrlInvalid(
            "PARETOKEN_BROKER_URL: a parameter behind the question mark is none that redis-py knows. Correct it, or "
            "leave it out."
        ) from None
