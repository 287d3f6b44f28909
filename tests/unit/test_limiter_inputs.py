"""What the limiter refuses before it asks Redis, and that its scripts are found where the package is installed."""

import pytest
from redis.asyncio import Redis

from workers.limiter import Limiter, script_text
from workers.limits import Limits


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "concurrency"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_below_one_is_refused(name, value):
    with pytest.raises(
        ValueError, match=f"limit {name} = {value}: give a number of at least 1, or leave it out"
    ):
        Limits(**{name: value})


def test_a_prefix_that_would_break_the_hash_tag_is_refused():
    with pytest.raises(ValueError, match=r"leave out '\{'"):
        Limiter(Redis(), prefix="a{b")


async def test_a_negative_estimate_is_refused():
    with pytest.raises(ValueError, match="call job-1: an estimate of -5 tokens"):
        await Limiter(Redis()).acquire("lane", "job-1", -5, Limits(), 60)


@pytest.mark.parametrize("name", ["acquire", "settle", "view"])
def test_every_script_reads_the_servers_clock_once(name):
    assert script_text(name).count("redis.call('TIME')") == 1
