"""Slots of the limiter whose call nobody makes any more."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
import redis
from redis.asyncio import Redis

from db import dispatch
from db.runs import cancel_run
from scheduler.lanes import free_slots
from scheduler.slots import GRACE_S, Slots
from tests.integration.db.conftest import MakeStore
from tests.store import Store
from workers.limiter import Limiter, lane_key
from workers.limits import Ended, Limits

LIMITS = Limits(concurrency=8)


class Looks:
    """Looks of a scheduler at times of the test's own, and who holds a slot after each."""

    def __init__(self, store: Store, broker_url: str, client: Redis) -> None:
        self.now_s = 0.0
        [self.lane] = dispatch.lane_names(store.connection)
        self.limiter = Limiter(client)
        self._client = client
        self._slots = Slots(
            store.connection,
            redis.Redis.from_url(broker_url),
            broker_url=broker_url,
            clock=lambda: self.now_s,
        )

    async def at(self, now_s: float) -> set[str]:
        self.now_s = now_s
        await asyncio.to_thread(self._slots.look)
        return await self.held()

    async def held(self) -> set[str]:
        return {ticket.decode() for ticket in await self._client.hkeys(lane_key(self.lane, "held"))}

    async def take(self, *tickets: str) -> None:
        for ticket in tickets:
            assert (await self.limiter.acquire(self.lane, ticket, 10, LIMITS, lease_s=600)).granted


@pytest.fixture
async def client(broker_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(broker_url) as client:
        yield client


def ticket(store: Store, number: int) -> str:
    job = store.job(number)
    return f"{job['id']}:{job['dispatch_no']}"


async def test_a_slot_is_freed_when_for_a_while_nobody_was_at_work_under_its_ticket(
    make_store: MakeStore, broker_url: str, client: Redis
) -> None:
    store = make_store(samples=4)
    for number, state in enumerate(("claimed", "started", "answered", "claimed"), start=1):
        await store.to(state, number)
    claimed, in_flight, settled, lost = (ticket(store, number) for number in (1, 2, 3, 4))
    earlier, foreign = f"{store.job(1)['id']}:0", ("somebody else's", "²:1", f"{10**30}:1")
    looks = Looks(store, broker_url, client)
    await looks.take(claimed, in_flight, settled, lost, earlier, *foreign)
    store.rows(
        "UPDATE job SET state = 'pending', worker = NULL WHERE id = %(id)s RETURNING id",
        id=store.job(4)["id"],
    )

    everybody = {claimed, in_flight, settled, lost, earlier, *foreign}
    assert await looks.at(0) == everybody
    # The worker of the settled one tells the limiter what was used, a moment after Postgres.
    await looks.limiter.settle(looks.lane, settled, tokens=7, result="ok")
    assert await looks.at(GRACE_S - 0.1) == everybody - {settled}
    assert await looks.at(GRACE_S + 1) == {claimed, in_flight, *foreign}
    assert (await looks.limiter.view(looks.lane)).in_flight == 5
    assert await looks.at(10 * GRACE_S) == {claimed, in_flight, *foreign}


async def test_a_slot_that_found_its_holder_meanwhile_is_not_freed(
    store: Store, broker_url: str, client: Redis
) -> None:
    await store.to("queued")
    looks = Looks(store, broker_url, client)
    await looks.take(ticket(store, 1))
    await looks.at(0)
    await store.claim()
    await looks.at(GRACE_S / 2)
    store.rows("UPDATE job SET state = 'pending', worker = NULL RETURNING id")
    assert await looks.at(GRACE_S + 1) == {ticket(store, 1)}


async def test_the_lane_of_a_run_that_is_over_is_left_alone(
    store: Store, broker_url: str, client: Redis
) -> None:
    await store.to("started")
    looks = Looks(store, broker_url, client)
    await looks.take(ticket(store, 1))
    cancel_run(store.connection, run=store.run)
    for number in range(3):
        assert await looks.at(number * GRACE_S) == {ticket(store, 1)}


async def test_slots_of_one_lane_are_freed_together(
    broker_url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter, end = Limiter(client), Limiter._end
    slots = [(lane, f"{number}:1") for lane in ("a", "b") for number in range(4)]
    for lane, held in slots:
        assert (await limiter.acquire(lane, held, 10, LIMITS, lease_s=600)).granted
    scripts: list[tuple[str, int]] = []

    async def counted(self: Limiter, lane: str, ended: Sequence[Ended]) -> None:
        scripts.append((lane, len(ended)))
        await end(self, lane, ended)

    monkeypatch.setattr(Limiter, "_end", counted)
    await asyncio.to_thread(free_slots, broker_url, slots)
    assert scripts == [("a", 4), ("b", 4)]
    assert [(await limiter.view(lane)).in_flight for lane in ("a", "b")] == [0, 0]
