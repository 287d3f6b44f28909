"""Slots of the limiter whose call nobody makes any more."""

import asyncio

from redis.asyncio import Redis

from db import dispatch
from scheduler.slots import Slots
from tests.integration.db.conftest import MakeStore
from workers.limiter import Limiter, Limits

LIMITS = Limits(concurrency=8)


async def test_a_slot_is_freed_when_two_looks_find_nobody_at_work_under_its_ticket(
    make_store: MakeStore, broker_url: str
) -> None:
    store = make_store(samples=3)
    for number in (1, 2, 3):
        await store.to("claimed", number)
    at_work, settled, lost = (f"{job['id']}:{job['dispatch_no']}" for job in store.jobs())
    earlier, foreign = at_work.replace(":1", ":0"), "somebody else's"
    slots = Slots(store.connection, broker_url=broker_url)
    [lane] = dispatch.lane_names(store.connection)
    async with Redis.from_url(broker_url) as redis:
        limiter = Limiter(redis)
        for ticket in (at_work, settled, lost, earlier, foreign):
            await limiter.acquire(lane, ticket, 10, LIMITS, lease_s=600)

        # As at the settlement: Postgres knows first, and the worker's word to the limiter is under way.
        await store.start(2)
        await store.settle(2)
        store.rows(
            "UPDATE job SET state = 'pending', worker = NULL WHERE id = %(id)s RETURNING id",
            id=store.job(3)["id"],
        )
        assert await asyncio.to_thread(slots.look) == 0
        await limiter.settle(lane, settled, tokens=10, result="ok")
        assert await asyncio.to_thread(slots.look) == 2
        assert await limiter.holders(lane) == {at_work, foreign}
        assert await asyncio.to_thread(slots.look) == 0
        assert (await limiter.view(lane)).in_flight == 2


async def test_without_a_broker_no_slot_is_freed_and_nothing_breaks(make_store: MakeStore) -> None:
    store = make_store()
    assert await asyncio.to_thread(Slots(store.connection, broker_url="redis://127.0.0.1:1").look) == 0
