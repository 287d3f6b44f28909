"""Every decision of the limiter, by the real scripts on a real server, with a clock that the test moves."""

import asyncio
import heapq
import math
import random
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tests.integration.limiter_clock import ClockedLimiter
from workers.limiter import LANE_PARTS, Limiter
from workers.limits import STOPPED, Asked, Decision, Ended, LimiterUnavailable, Limits

LANE = "127.0.0.1:8080/api:ab12:gpt-x"
START_S = 1_800_000_000.0
REQUESTS = Limits(requests_per_minute=600)
TOKENS = Limits(tokens_per_minute=60_000)
NO_LIMITS = Limits()
SLOW = Limits(requests_per_minute=1)
PER_S = 600 * 0.98 / 61.2
"""Requests a second that a limit of 600 a minute is served with: 9.608."""
TOKENS_PER_S = 0.98 * 60_000 * 0.98 / 61.2
"""941.6 for a limit of 60,000 a minute, of which 2 % are kept for the error in estimates."""


class Clock:
    now_s = START_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
async def redis(broker_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(broker_url)
    yield client
    await client.aclose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(redis: Redis, clock: Clock) -> ClockedLimiter:
    return ClockedLimiter(redis, clock)


async def ask(limiter: Limiter, name: str, tokens: int = 0, limits: Limits = REQUESTS, lease_s: float = 120):
    return await limiter.acquire(LANE, name, tokens, limits, lease_s)


def asked(name: str, limits: Limits = REQUESTS) -> Asked:
    return Asked(request_id=name, tokens=0, limits=limits, lease_s=120)


def wait(seconds: float, reason: str) -> Decision:
    """Granted after so long; the scripts round up to milliseconds."""
    return Decision(granted=True, wait_s=pytest.approx(seconds, abs=0.002), reason=reason)


NOW = wait(0, "ok")


async def test_a_missing_bucket_starts_empty_and_each_call_holds_its_own_slot(limiter):
    assert [await ask(limiter, name) for name in "abc"] == [wait(n / PER_S, "requests") for n in (1, 2, 3)]


@pytest.mark.parametrize(("idle_s", "burst"), [(0.5, 4), (600, 12)])  # 0.5 x 9.608 = 4.8; at most 0.02 x 600
async def test_an_idle_lane_gathers_a_small_burst(limiter, clock, idle_s, burst):
    await limiter.acquire(LANE, "first", 0, replace(REQUESTS, concurrency=100), 120)
    await limiter.give_up(LANE, "first")
    for n in range(3):  # room for 64 in flight: eight slots, doubled by each round of successes
        names = [f"{n}.{i}" for i in range(8 << n)]
        for name in names:
            await limiter.acquire(LANE, name, 0, NO_LIMITS, 120)
        for name in names:
            await limiter.settle(LANE, name, tokens=None, result="ok")
    clock.now_s += 600
    await drain(limiter)
    clock.now_s += idle_s
    granted = [await ask(limiter, f"g{n}") for n in range(burst + 1)]
    assert granted[:burst] == [NOW] * burst
    assert granted[burst].reason == "requests"


async def drain(limiter: Limiter) -> None:
    """Use up what the bucket holds, exactly: the view says how much that is."""
    n = 0
    while (level := (await limiter.view(LANE)).requests_level) >= 1:
        await ask(limiter, f"drain{n}")
        await limiter.settle(LANE, f"drain{n}", tokens=None, result="other")
        n += 1
    assert level == pytest.approx(0, abs=1e-6)


async def test_the_same_id_gets_the_rest_of_its_wait_and_is_charged_once(limiter, clock):
    await ask(limiter, "a")
    before = await limiter.view(LANE)
    clock.now_s += 0.04
    assert await ask(limiter, "a") == wait(1 / PER_S - 0.04, "requests")
    clock.now_s += 0.1
    assert await ask(limiter, "a") == NOW
    after = await limiter.view(LANE)
    assert (before.requests_level, before.in_flight) == (-1, 1)
    assert (after.requests_level, after.in_flight) == (pytest.approx(-1 + 0.14 * PER_S, abs=1e-3), 1)


async def test_a_long_wait_is_refused_charges_nothing_and_spreads_the_return(redis, clock):
    limiter = ClockedLimiter(redis, clock, max_wait_s=0.25)  # two slots at 9.608 a second
    granted = [await ask(limiter, name) for name in "abc"]
    level = (await limiter.view(LANE)).requests_level
    refused = [await ask(limiter, name) for name in "defg"]
    assert [decision.granted for decision in granted + refused] == [True] * 3 + [False] * 4
    assert {decision.reason for decision in refused} == {"requests"}
    steps = [b.wait_s - a.wait_s for a, b in pairwise(refused)]
    # One by one, not in a herd: at half the pace of eight calls in flight that take the 1 s assumed at first.
    assert steps == pytest.approx([2 / 8] * 3, abs=0.002)
    view = await limiter.view(LANE)
    assert (view.requests_level, view.waiting, view.in_flight) == (level, 4, 3)


async def test_a_call_too_large_for_the_longest_wait_is_still_sent(limiter):
    assert await ask(limiter, "big", 50_000, TOKENS) == wait(50_000 / TOKENS_PER_S, "tokens")
    assert not (await ask(limiter, "next", 10, TOKENS)).granted


@pytest.mark.parametrize(
    ("actual", "times", "level"),
    [
        (400, 1, -400),  # 1,000 expected, 400 used: 600 come back
        (400, 2, -400),  # once
        (1500, 1, -1500),  # 500 more than expected
        (None, 1, -1000),  # unknown: what was expected stays charged
        (0, 1, 0),
    ],
)
async def test_settling_puts_the_actual_tokens_in_place_of_the_estimate(limiter, actual, times, level):
    await ask(limiter, "a", 1000, TOKENS)
    assert (await limiter.view(LANE)).tokens_level == -1000
    for _ in range(times):
        await limiter.settle(LANE, "a", tokens=actual, result="other")
    view = await limiter.view(LANE)
    assert (view.tokens_level, view.in_flight) == (level, 0)


@pytest.mark.parametrize("times", [1, 2])
async def test_giving_up_refunds_once(limiter, times):
    both = Limits(requests_per_minute=600, tokens_per_minute=60_000)
    await ask(limiter, "stays", 50, both)
    await ask(limiter, "goes", 100, both)
    for _ in range(times):
        await limiter.give_up(LANE, "goes")
    view = await limiter.view(LANE)
    assert (view.requests_level, view.tokens_level, view.in_flight) == (-1, -50, 1)


async def test_estimates_are_sharpened_by_what_calls_really_use(limiter):
    for n in range(300):
        await ask(limiter, f"c{n}", 1200, NO_LIMITS)
        await limiter.settle(LANE, f"c{n}", tokens=150, result="ok")
    ratio = (await limiter.view(LANE)).tokens_per_estimated_token
    # Four calls' worth at 1, faded by 0.99 a call: (4 x .99^300 + S / 8) / (4 x .99^300 + S), S = (1 - .99^300) / .01
    prior, seen = 4 * 0.99**300, (1 - 0.99**300) / 0.01
    assert ratio == pytest.approx((prior + seen / 8) / (prior + seen), abs=1e-3)
    assert await ask(limiter, "next", 1200, TOKENS) == wait(1200 * ratio / TOKENS_PER_S, "tokens")


async def test_calls_in_flight_are_rated_again_but_no_level_rises_above_the_burst(limiter):
    for n in range(8):
        await ask(limiter, f"c{n}", 1200, TOKENS)
    assert (await limiter.view(LANE)).tokens_level == -8 * 1200
    await limiter.settle(LANE, "c0", tokens=150, result="ok")
    ratio = (4 * 1200 * 0.99 + 150) / (4 * 1200 * 0.99 + 1200)
    assert (await limiter.view(LANE)).tokens_level == pytest.approx(-150 - 7 * 1200 * ratio, abs=0.01)
    for n in range(1, 8):
        await limiter.settle(LANE, f"c{n}", tokens=1, result="ok")
    assert (await limiter.view(LANE)).tokens_level == -150 - 7
    await ask(limiter, "later", 1200, TOKENS)
    await limiter.settle(LANE, "later", tokens=0, result="ok")
    assert (await limiter.view(LANE)).tokens_level <= 0.02 * 60_000


async def test_an_expired_lease_frees_concurrency_and_keeps_the_tokens_charged(limiter, clock):
    one = Limits(tokens_per_minute=60_000, concurrency=1)
    await limiter.acquire(LANE, "lost", 1000, one, 5)
    assert (await ask(limiter, "b", 0, one)).reason == "concurrency"
    clock.now_s += 1000 / TOKENS_PER_S + 5.01  # the lease runs from the slot
    assert await ask(limiter, "b", 0, one) == NOW
    view = await limiter.view(LANE)
    filled = (1000 / TOKENS_PER_S + 5.01) * TOKENS_PER_S
    assert view.tokens_level == pytest.approx(min(-1000 + filled, 0.02 * 0.98 * 60_000), abs=1)
    await limiter.settle(LANE, "lost", tokens=0, result="ok")  # too late to change anything
    assert (await limiter.view(LANE)).tokens_level == view.tokens_level


async def test_concurrency_is_a_hard_cap_and_a_settled_call_makes_room(limiter):
    two = Limits(concurrency=2)
    decisions = [await ask(limiter, name, 0, two) for name in "abcd"]
    assert [decision.reason for decision in decisions] == ["ok", "ok", "concurrency", "concurrency"]
    assert 0 < decisions[2].wait_s < decisions[3].wait_s
    await limiter.settle(LANE, "a", tokens=None, result="other")
    assert await ask(limiter, "d", 0, two) == NOW
    assert (await ask(limiter, "c", 0, two)).reason == "concurrency"


async def concurrency(limiter: Limiter, redis: Redis) -> float:
    return float(await redis.hget(f"paretoken:{{{LANE}}}:lane", "concurrency"))


async def test_concurrency_adapts(limiter, redis, clock):
    async def rounds(number: int, result: str) -> float:
        for n in range(number):
            names = [f"{clock.now_s}.{n}.{i}" for i in range(4)]
            for name in names:
                await ask(limiter, name, 0, NO_LIMITS)
            for name in names[:1]:
                await limiter.settle(LANE, name, tokens=None, result=result)
            for name in names[1:]:
                await limiter.settle(LANE, name, tokens=None, result="other")
        return await concurrency(limiter, redis)

    assert await rounds(1, "ok") == 9  # 8 + 1: never throttled, four of eight slots in use
    assert await rounds(5, "ok") == 9  # four of nine: more slots would change nothing
    await rounds(1, "throttled")
    assert await concurrency(limiter, redis) == pytest.approx(9 * 0.7)
    await limiter.settle(LANE, "unknown", tokens=None, result="throttled")  # within the same cool-down
    assert await concurrency(limiter, redis) == pytest.approx(6.3)
    clock.now_s += 30
    assert await rounds(1, "ok") == pytest.approx(6.3 + 1 / 6.3)
    clock.now_s += 61
    assert await rounds(1, "ok") == pytest.approx(6.3 + 1 / 6.3 + 1)
    for _ in range(20):
        clock.now_s += 60
        await limiter.settle(LANE, "unknown", tokens=None, result="throttled")
    assert await concurrency(limiter, redis) == 1


async def test_a_call_that_waited_for_a_limit_does_not_raise_concurrency(limiter, redis, clock):
    names = [str(n) for n in range(8)]
    assert {(await ask(limiter, name)).reason for name in names} == {"requests"}
    clock.now_s += 5
    for name in names:
        await limiter.settle(LANE, name, tokens=None, result="ok")
    assert await concurrency(limiter, redis) == 8


async def test_a_cool_down_moves_every_slot_and_the_waiters_learn_of_it(limiter, clock):
    for name in "abc":
        await ask(limiter, name)
    clock.now_s += 0.01
    await limiter.settle(LANE, "a", tokens=0, result="throttled", cool_down_s=10)
    # b and c keep their places and their distance; d comes behind them, with the bucket standing still meanwhile.
    assert await ask(limiter, "b") == wait(10 + 2 / PER_S - 0.01, "cool_down")
    assert await ask(limiter, "c") == wait(10 + 3 / PER_S - 0.01, "cool_down")
    assert await ask(limiter, "d") == wait(10 + 4 / PER_S - 0.01, "cool_down")
    view = await limiter.view(LANE)
    assert view.cool_down_until.timestamp() == START_S + 10.01
    assert view.backlog_s == pytest.approx(10 + 4 / PER_S - 0.01, abs=0.002)
    clock.now_s += 10
    assert await ask(limiter, "b") == wait(2 / PER_S - 0.01, "requests")


async def test_a_long_cool_down_refuses_all_and_takes_back_the_slots(limiter, clock):
    await ask(limiter, "holder")
    await ask(limiter, "sent")
    await limiter.settle(LANE, "sent", tokens=0, result="throttled", cool_down_s=198_300)
    refused = [await ask(limiter, name) for name in ("holder", "new", "newer")]
    assert [(decision.granted, decision.reason) for decision in refused] == [(False, "cool_down")] * 3
    assert 198_300 <= refused[0].wait_s < refused[1].wait_s < refused[2].wait_s
    view = await limiter.view(LANE)
    assert (view.in_flight, view.requests_level) == (0, -1)  # the holder's request is given back
    clock.now_s += 198_301
    assert (await ask(limiter, "holder")).granted


async def test_calls_leave_a_cool_down_in_single_file(limiter, clock):
    await limiter.settle(LANE, "unknown", tokens=None, result="throttled", cool_down_s=5)
    waits = [(await ask(limiter, name, 0, NO_LIMITS)).wait_s for name in "abcd"]
    assert waits == pytest.approx(
        [5, 5.25, 5.4875, 5.713125], abs=0.003
    )  # 250 ms, then 0.95 of the last distance


async def test_429s_that_name_no_time_cool_down_longer_and_longer(limiter, clock):
    lengths = []
    for _ in range(7):
        await limiter.settle(LANE, "unknown", tokens=None, result="throttled")
        until = (await limiter.view(LANE)).cool_down_until
        lengths.append(until.timestamp() - clock.now_s)
        clock.now_s = until.timestamp()
    assert lengths == [1, 4, 16, 16, 16, 16, 16]


@pytest.mark.parametrize("seed", range(4))
async def test_no_60_s_window_holds_more_than_the_limit(redis, clock, seed):
    """Several hold slots at once; bursts, pauses, cool-downs, late senders, and estimates that are too high."""
    limits = Limits(requests_per_minute=120, tokens_per_minute=24_000)
    limiter, rng = ClockedLimiter(redis, clock, max_wait_s=10_000), random.Random(seed)
    sends: list[tuple[float, int]] = []
    holders: list[tuple[float, str, int]] = []

    async def send_the_next() -> None:
        at_s, name, tokens = heapq.heappop(holders)
        clock.now_s = max(clock.now_s, at_s)
        decision = await ask(limiter, name, tokens, limits)
        if decision.wait_s:  # a cool-down came between
            heapq.heappush(holders, (clock.now_s + decision.wait_s, name, tokens))
            return
        used = tokens if rng.random() < 0.5 else tokens // 8
        sends.append((clock.now_s + rng.random() * 1.2, used))
        await limiter.settle(LANE, name, tokens=used, result="ok")

    for n in range(500):
        next_s = clock.now_s + rng.choice([0, 0, 0, 0.3, 1, 40 if rng.random() < 0.1 else 0])
        while holders and holders[0][0] <= next_s:
            await send_the_next()
        clock.now_s = max(clock.now_s, next_s)
        if rng.random() < 0.01:
            await limiter.settle(
                LANE, "unknown", tokens=None, result="throttled", cool_down_s=rng.random() * 9
            )
        tokens = rng.choice([10, 100, 200, 300, 400])
        while not (decision := await ask(limiter, str(n), tokens, limits)).granted:
            await send_the_next()
        heapq.heappush(holders, (clock.now_s + decision.wait_s, str(n), tokens))
    while holders:
        await send_the_next()
    assert len(sends) == 500
    sends.sort()
    for start_s, _ in sends:
        window = [used for at_s, used in sends if start_s <= at_s < start_s + 60]
        assert len(window) <= 120
        assert sum(window) <= 24_000


async def test_a_slot_never_comes_before_one_given_earlier(limiter):
    """A call that waits long for tokens, then small ones: their requests don't come on top of its."""
    both = Limits(requests_per_minute=600, tokens_per_minute=60_000)
    waits = [(await ask(limiter, str(n), tokens, both)).wait_s for n, tokens in enumerate([3000, 1, 1])]
    assert waits == pytest.approx([3000 / TOKENS_PER_S, 3001 / TOKENS_PER_S, 3002 / TOKENS_PER_S], abs=0.002)
    await limiter.give_up(LANE, "0")
    assert (await ask(limiter, "3", 1, both)).wait_s == pytest.approx(waits[2], abs=0.002)


async def test_after_a_flush_it_works_on_starting_empty(limiter, redis):
    await ask(limiter, "a")
    await redis.flushdb()
    await limiter.settle(LANE, "a", tokens=5, result="ok")
    await limiter.give_up(LANE, "a")
    assert (await limiter.view(LANE)).in_flight == 0
    assert await ask(limiter, "b") == wait(1 / PER_S, "requests")


@pytest.mark.parametrize("decode", [False, True])
async def test_production_scripts_on_the_server_clock(broker_url, decode):
    async with Redis.from_url(broker_url, decode_responses=decode) as redis:
        limiter = Limiter(redis, prefix="mine")
        assert await limiter.acquire(LANE, "a", 100, NO_LIMITS, 60) == NOW
        await redis.script_flush()  # as after a restart of the server
        assert (await limiter.view(LANE)).in_flight == 1
        await limiter.acquire(LANE, "b", 100, Limits(concurrency=1), 60)
        keys = {key if decode else key.decode() for key in await redis.keys()}
        assert keys == {f"mine:{{{LANE}}}:{part}" for part in ("lane", "flight", "held", "waiting")}
        assert [await redis.ttl(key) > 3600 for key in keys] == [True] * 4
        assert (await Limiter(redis, prefix="other").view(LANE)).in_flight == 0


async def test_without_redis_nothing_is_granted():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        redis = Redis(host="127.0.0.1", port=port, password="hush-hush", retry=Retry(NoBackoff(), 0))
        limiter = Limiter(redis)
        for call in (
            ask(limiter, "a"),
            limiter.turn(LANE, "a", 0, REQUESTS, 60),
            limiter.settle(LANE, "a", tokens=1, result="ok"),
            limiter.give_up(LANE, "a"),
            limiter.view(LANE),
        ):
            with pytest.raises(LimiterUnavailable, match="nothing is sent until it does") as raised:
                await call
            assert "hush" not in str(raised.value)
        await redis.aclose()


async def test_a_turn_is_handed_to_the_next_waiter_of_the_process(redis):
    limiter, one = Limiter(redis), Limits(concurrency=1)
    assert await limiter.turn(LANE, "a", 0, one, 60) == NOW
    waiting = asyncio.create_task(limiter.turn(LANE, "b", 0, one, 60))
    while not (await limiter.view(LANE)).waiting:
        assert not waiting.done()
    await limiter.settle(LANE, "a", tokens=None, result="ok")
    assert await waiting == NOW
    assert (await limiter.view(LANE)).in_flight == 1


async def test_many_calls_are_decided_and_settled_by_one_script_each(limiter):
    four = Limits(concurrency=4)
    turns = [asyncio.create_task(limiter.turn(LANE, name, 10, four, 60)) for name in "abcdefg"]
    assert await asyncio.gather(*turns[:4]) == [NOW] * 4
    assert (await limiter.view(LANE)).in_flight == 4
    asked = limiter.asked["scripts"]
    await asyncio.gather(*(limiter.settle(LANE, name, tokens=5, result="ok") for name in "abcd"))
    assert await asyncio.gather(*turns[4:]) == [NOW] * 3
    assert limiter.asked["scripts"] <= asked + 3  # one settles all; one or two grant the rest
    view = await limiter.view(LANE)
    assert (view.in_flight, view.waiting) == (3, 0)


async def test_calls_asked_together_hold_slots_one_after_the_other(limiter):
    """The same as when each is asked by itself, in their order."""
    turns = await limiter._ask(LANE, REQUESTS, [asked(name) for name in "abc"])
    assert turns == [wait(n / PER_S, "requests") for n in (1, 2, 3)]


WHOLE = Limits(requests_per_minute=600, tokens_per_minute=60_000, concurrency=40)


@pytest.mark.parametrize("limits", [NO_LIMITS, REQUESTS, WHOLE], ids=["none", "requests", "all"])
@pytest.mark.parametrize("last", ["ok", "throttled"])
async def test_one_script_for_many_leaves_what_many_scripts_leave(redis, clock, limits, last):
    """Asked and settled one by one, and all at once: the same decisions and the same lane, to the last digit."""
    one_by_one = ClockedLimiter(redis, clock, prefix="single")
    at_once = ClockedLimiter(redis, clock, prefix="many")
    for round_ in range(6):
        calls = [
            Asked(request_id=f"{round_}-{n}", tokens=100 + n, limits=limits, lease_s=60)
            for n in range(5 * round_ + 1)
        ]
        singly = []
        for call in calls:
            singly += await one_by_one._ask(LANE, limits, [call])
            if not singly[-1].granted:
                break
        assert await at_once._ask(LANE, limits, calls) == singly
        # One is asked again, with a new one behind it.
        again = [calls[0], Asked(request_id=f"{round_}-late", tokens=7, limits=limits, lease_s=60)]
        singly = [decision for call in again for decision in await one_by_one._ask(LANE, limits, [call])]
        together = await at_once._ask(LANE, limits, again)
        assert together == singly[: len(together)]
        clock.now_s += 0.7
        results = [*["given_up", "other", *(["ok"] * len(calls))][: len(calls) - 1], last]
        ended = [
            Ended(request_id=call.request_id, tokens=n or None, result=result, cool_down_s=0.5)
            for n, (call, result) in enumerate(zip(calls, results, strict=True))
        ]
        for each in ended:
            await one_by_one._end(LANE, [each])
        await at_once._end(LANE, ended)
        clock.now_s += 13 * round_
        assert await state_of(redis, "many") == await state_of(redis, "single")


async def state_of(redis: Redis, prefix: str) -> dict[str, object]:
    lane, flight, held, waiting = (f"{prefix}:{{{LANE}}}:{part}" for part in LANE_PARTS)
    return {
        "lane": await redis.hgetall(lane),
        "flight": await redis.zrange(flight, 0, -1, withscores=True),
        "held": await redis.hgetall(held),
        "waiting": await redis.zrange(waiting, 0, -1, withscores=True),
    }


async def test_those_behind_the_first_refused_one_are_not_asked(limiter):
    one = Limits(concurrency=1)
    found = await limiter._ask(LANE, one, [asked(name, one) for name in "abc"])
    assert [decision.granted for decision in found] == [True, False]
    view = await limiter.view(LANE)
    assert (view.in_flight, view.waiting) == (1, 1)


async def turn_that_waits(redis: Redis) -> "tuple[Limiter, asyncio.Task[Decision]]":
    """A call that holds a slot, which is about a minute away."""
    limiter = Limiter(redis, max_wait_s=100)
    waiting = asyncio.create_task(limiter.turn(LANE, "a", 0, SLOW, 60))
    while not (await limiter.view(LANE)).in_flight:
        assert not waiting.done()
    return limiter, waiting


async def test_a_stopped_turn_holds_nothing(redis):
    limiter, waiting = await turn_that_waits(redis)
    limiter.stop()
    assert await waiting == STOPPED
    assert (await limiter.view(LANE)).in_flight == 0
    assert await limiter.turn("another lane", "b", 0, SLOW, 60) == STOPPED


async def test_a_cancelled_turn_holds_nothing(redis):
    limiter, waiting = await turn_that_waits(redis)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    view = await limiter.view(LANE)
    assert view.in_flight == 0
    assert math.isclose(view.requests_level, 0, abs_tol=0.01)
