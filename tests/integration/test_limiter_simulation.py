"""Minutes of load by many processes in virtual time: the real scripts and `turn`, a gateway that enforces limits.

Small limits, so that it takes seconds; `benchmarks/limiter.py` is the same in real time at 600 and 200,000.
A gateway counts requests and tokens in a sliding window of 60 s, or calls in flight, and answers 429 beyond it.
"""

import asyncio
import random
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from tests.integration.limiter_clock import VirtualLimiter, VirtualLoop
from workers.limits import Limits

LANE = "127.0.0.1:gateway:key:model"
ESTIMATE = 1200
REQUESTS, TOKENS = 120, 40_000
TOLD = Limits(requests_per_minute=REQUESTS, tokens_per_minute=TOKENS)


@dataclass(kw_only=True)
class Gateway:
    requests: int = REQUESTS
    tokens: int = TOKENS
    most_in_flight: int = 10**9
    latency_s: float = 2
    counts_at_arrival: bool = True
    retry_after_s: float | None = None
    """What a 429 says; `None`: the time until there is room again."""
    refuses: float = 0
    """Share of calls that are refused whatever the load."""
    arrived: deque[float] = field(default_factory=deque)
    counted: deque[tuple[float, int]] = field(default_factory=deque)
    in_flight: int = 0

    async def answer(self, tokens: int) -> float | None:
        """None: served. A number: throttled, come back after so many seconds."""
        now = asyncio.get_running_loop().time()
        self.count(now)
        used = sum(number for _, number in self.counted)
        if random.random() < self.refuses:
            await asyncio.sleep(0.02)
            return self.retry_after_s
        if len(self.arrived) >= self.requests or used >= self.tokens or self.in_flight >= self.most_in_flight:
            await asyncio.sleep(0.02)
            oldest = (
                self.arrived[0]
                if len(self.arrived) >= self.requests or not self.counted
                else self.counted[0][0]
            )
            return oldest + 60 - now if self.retry_after_s is None else self.retry_after_s
        self.arrived.append(now)
        if self.counts_at_arrival:
            self.counted.append((now, tokens))
        self.in_flight += 1
        await asyncio.sleep(self.latency_s * random.uniform(0.5, 1.5))
        self.in_flight -= 1
        if not self.counts_at_arrival:
            self.counted.append((asyncio.get_running_loop().time(), tokens))
        return None

    def count(self, now: float) -> None:
        while self.arrived and self.arrived[0] <= now - 60:
            self.arrived.popleft()
        while self.counted and self.counted[0][0] <= now - 60:
            self.counted.popleft()


@dataclass(kw_only=True)
class Load:
    """`waiters` callers, spread over the processes, each of which makes one call after another."""

    gateway: Gateway
    limits: Limits
    mean_tokens: float = 150
    processes: int = 4
    waiters: int = 60
    minutes: int = 6
    served: Counter[int] = field(default_factory=Counter)
    tokens: Counter[int] = field(default_factory=Counter)
    throttled: Counter[int] = field(default_factory=Counter)
    parked: int = 0
    scripts: int = 0

    async def caller(self, limiter: VirtualLimiter, name: str) -> None:
        loop = asyncio.get_running_loop()
        start_s, number = loop.time(), 0
        while True:
            number += 1
            ticket = f"{name}:{number}"
            decision = await limiter.turn(LANE, ticket, ESTIMATE, self.limits, 120)
            if not decision.granted:
                self.parked += 1
                await asyncio.sleep(decision.wait_s)
                continue
            minute = int((loop.time() - start_s) // 60) + 1
            tokens = round(
                random.lognormvariate(0, 0.5) * self.mean_tokens / 1.133
            )  # its mean is e^(0.5^2 / 2)
            retry_after_s = await self.gateway.answer(tokens)
            if retry_after_s is None:
                self.served[minute] += 1
                self.tokens[minute] += tokens
                await limiter.settle(LANE, ticket, tokens=tokens, result="ok")
            else:
                self.throttled[minute] += 1
                await limiter.settle(LANE, ticket, tokens=0, result="throttled", cool_down_s=retry_after_s)

    async def apply(self, broker_url: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        redis = Redis.from_url(broker_url)
        limiters = [VirtualLimiter(redis) for _ in range(self.processes)]
        callers = [
            asyncio.create_task(self.caller(limiters[n % self.processes], str(n)))
            for n in range(self.waiters)
        ]
        await asyncio.sleep(60 * self.minutes)
        self.scripts = sum(limiter.asked["scripts"] for limiter in limiters)
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        loop.waiting_for_redis += 1
        await redis.aclose()

    def run(self, broker_url: str) -> None:
        random.seed(7)
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(self.apply(broker_url))

    def share_throttled(self, first_minute: int = 1) -> float:
        throttled, served = (
            sum(number for minute, number in counter.items() if minute >= first_minute)
            for counter in (self.throttled, self.served)
        )
        return throttled / (throttled + served)


@pytest.mark.parametrize(
    ("gateway", "mean_tokens"),
    [
        (Gateway(), 150),  # requests bind; estimates are eight times too high
        (Gateway(), 500),  # tokens bind
        (Gateway(requests=300, tokens=100_000, counts_at_arrival=False, latency_s=5), 500),
    ],
    ids=["requests", "tokens", "tokens counted at completion"],
)
def test_told_limits_are_used_and_kept(broker_url, gateway, mean_tokens):
    limits = Limits(requests_per_minute=gateway.requests, tokens_per_minute=gateway.tokens)
    load = Load(gateway=gateway, limits=limits, mean_tokens=mean_tokens)
    load.run(broker_url)
    used = [sum(counter[minute] for minute in range(2, 7)) / 5 for counter in (load.served, load.tokens)]
    assert max(used[0] / gateway.requests, used[1] / gateway.tokens) > 0.9
    assert load.share_throttled() < 0.01


@pytest.mark.parametrize(
    "gateway",
    [
        Gateway(),
        Gateway(latency_s=1, retry_after_s=1),
        Gateway(latency_s=10),
        Gateway(requests=300, latency_s=0.1, retry_after_s=0),
    ],
    ids=["exact retry-after", "retry-after: 1", "slow", "fast, no retry-after"],
)
def test_unknown_limits_are_found(broker_url, gateway):
    load = Load(gateway=gateway, limits=Limits(), minutes=6)
    load.run(broker_url)
    assert load.share_throttled(first_minute=2) < 0.05
    assert sum(load.served.values()) > 0.5 * gateway.requests * 6


def test_a_limit_on_calls_in_flight_is_found(broker_url):
    gateway = Gateway(requests=10**9, tokens=10**9, most_in_flight=12, retry_after_s=1)
    load = Load(gateway=gateway, limits=Limits(), minutes=4)
    load.run(broker_url)
    assert load.share_throttled() < 0.03
    assert load.served[4] > 0.7 * 12 * 60 / 2  # of what 12 calls of 2 s in flight make in a minute


def test_an_odd_refusal_is_not_taken_for_a_limit(broker_url):
    """One call in 33 is refused whatever the load. With ever longer cool-downs some 40 calls a minute were left."""
    gateway = Gateway(requests=10**9, tokens=10**9, latency_s=0.7, refuses=0.03, retry_after_s=0.3)
    load = Load(gateway=gateway, limits=Limits())
    load.run(broker_url)
    assert sum(load.served.values()) > 6 * 150
    assert min(load.served[minute] for minute in range(1, 7)) > 50


@pytest.mark.parametrize(
    ("limits", "calls_a_minute", "scripts_per_call"),
    [
        (Limits(concurrency=8), 8 * 60 / 2, 3.5),  # acquire, settle and about one try in vain
        (TOLD, REQUESTS * 0.96, 4),  # and one more look just before sending
    ],
    ids=["concurrency", "requests"],
)
def test_a_thousand_waiters_in_a_hundred_processes_do_not_poll(
    broker_url, limits, calls_a_minute, scripts_per_call
):
    gateway = Gateway(requests=10**9, tokens=10**9)
    load = Load(gateway=gateway, limits=limits, processes=100, waiters=1000, minutes=3)
    load.run(broker_url)
    assert load.served[3] > 0.9 * calls_a_minute
    assert load.scripts / sum(load.served.values()) < scripts_per_call
    assert not load.throttled


def test_the_simulated_time_does_not_pass_while_redis_works(broker_url):
    async def ask() -> float:
        redis = Redis.from_url(broker_url)
        limiter, loop = VirtualLimiter(redis), asyncio.get_running_loop()
        start_s = loop.time()
        await limiter.acquire(LANE, "a", 0, Limits(), 60)
        limiter.loop.waiting_for_redis += 1
        await redis.aclose()
        return loop.time() - start_s

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(ask()) == 0
