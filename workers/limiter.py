"""One budget of requests, tokens and concurrency per gateway key and model, shared by all workers everywhere.

A *lane* is `endpoint:key-fingerprint:model`. Its state lives in Redis (6.2 or newer) or Valkey under four
keys with the hash tag `{lane}`; every decision is one Lua script (`limiter_*.lua`), atomic, on the server's
clock.

**Slots.** A granted call is charged at once and told when its slot is. Levels may go below zero, so that
everyone who waits holds a slot of his own: nobody polls, and no herd is woken. Asking again with the same id
charges nothing and answers the wait that is left; whoever asks just before sending learns of a cool-down.

**Windows.** A call's slot is the moment when it, and all that was charged before it, is paid for by a bucket
that starts empty, holds b = 0.02 L and fills with r = 0.98 L per 61.2 s, L being the limit per minute. Slots are
given in order, and at a call's slot no bucket counts as fuller than b (or than the call, if that is larger),
whatever the call waited for. So the calls sent from s to t cost at most b + r (t - s): any 60 s hold at most
b + 60 r = 0.981 L, and at most b + 61.2 r = L when sends are up to 1.2 s late; a steady load uses 60 r / L =
96 %. For requests this is exact, but for k waiters that give up while others stand behind them: they can put k
more into one window. For tokens L is 0.98 of the limit (a steady load uses 94 %), it holds as far as the charges
equal what the gateway counts, and a single call larger than b adds what it is larger.

**Token estimates** are upper bounds, often eight times too high. A call in flight therefore counts with its
estimate times actual / estimated, both summed over about the last 50 successful calls of the lane (starting at
1); `settle` puts the actual tokens in its place. When the ratio moves, the calls in flight are re-rated with
it, and no level rises above b: what too high estimates held back can't be sent later as a burst. What is left
is the error in the sum of the calls in flight, and for a gateway that counts at completion how much that sum
varies: the headroom of 6 % is for it. A sudden change of mix shows until the first of the new calls settle. A
gateway that counts `max_tokens` answers 429, and is then obeyed.

**Concurrency** adapts between 1 and 1024, starting at 8. A success that waited for no limit, with at least half
of the slots in use, adds 1/c, or 1 when the last cool-down is over for a minute (half a minute in a lane with limits).
A 429 takes it to 0.7 c, once per cool-down and duration of a call, and to half of that where the told wait is half a
minute or longer. From 0.85 to 1.1 times what 0.7 was taken of, it grows by 1/4c, or 1/c when the cool-down is over
for a minute: it stays long just below a limit that is there.

**Cool-downs** stop everybody: slots still held move back by their length, new ones come after them, and calls
leave them in single file. Where 429s name no time, or a short one, they last 1 s, and 4 and 16 s when the calls
after one fail again; some successes in between make it 1 s again, so that a gateway which refuses an odd call
whatever the load is not taken for one that is full.

    LimiterError
    └── LimiterUnavailable    no answer from Redis: wait and ask again, never send without an answer
"""

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Literal

from redis.asyncio import Redis
from redis.exceptions import RedisError

Reason = Literal["ok", "requests", "tokens", "concurrency", "cool_down"]
Result = Literal["ok", "throttled", "other"]

PREFIX = "paretoken"
LANE_PARTS = ("lane", "flight", "held", "waiting")
"""What a lane's state consists of; `held` has a field for each id that holds a slot (`limiter_state.lua`)."""
SHORT_WAIT_S = 0.05
"""After so short a wait `turn` does not ask again: a cool-down begun in it counts as just missed."""
YIELD_SHARE = 1 / 8
"""Share of freed slots that a process leaves to other processes' waiters instead of its own."""


class LimiterError(Exception):
    """Base of what the limiter raises."""


class LimiterUnavailable(LimiterError):
    """Redis gave no answer. Asking again later is safe: ids make every call of the limiter repeatable."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the gateway allows for one key and model. `None`: no such limit is known."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    """Most calls in flight. `None`: adaptive alone, up to 1024."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value < 1:
                raise ValueError(
                    f"limit {name} = {value}: give a number of at least 1, or leave it out for no limit"
                )


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The answer to `acquire`."""

    granted: bool
    wait_s: float
    """Granted: sleep so long, then send. Refused: nothing is held or charged; do not come back before."""
    reason: Reason
    """What the wait is for; `ok` when there is none."""


@dataclass(frozen=True, kw_only=True)
class LimiterView:
    """A lane as a person sees it."""

    requests_level: float | None
    """Requests that could be sent now; below zero so many hold later slots. `None`: no limit known."""
    tokens_level: float | None
    """The same in tokens."""
    in_flight: int
    """Calls that hold a slot: being served, or waiting for their time."""
    waiting: int
    """Refused calls (one per process where `turn` is used) that were told to come back."""
    concurrency: int
    """Calls in flight allowed now."""
    cool_down_until: datetime | None
    backlog_s: float
    """How long a call that asks now would wait for limits and cool-down."""
    tokens_per_estimated_token: float
    """What calls really use for each token estimated."""


@dataclass(kw_only=True)
class _Door:
    """What one process knows of a lane. Of its waiters only the first one asks; the others stand behind."""

    first: asyncio.Lock = field(default_factory=asyncio.Lock)
    free: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last answer said that concurrency is left."""
    refusal: Decision = Decision(granted=False, wait_s=0.25, reason="concurrency")
    ask_at: float = 0.0
    """Loop time when to ask although nothing became free here."""

    def postpone(self) -> None:
        self.ask_at = asyncio.get_running_loop().time() + self.refusal.wait_s


class Limiter:
    """Asks Redis before every call. One object per process and event loop; it opens and closes no connection.

    Every method raises `LimiterUnavailable` when Redis gives no answer.
    """

    def __init__(self, redis: Redis, *, prefix: str = PREFIX, max_wait_s: float = 20) -> None:
        if "{" in prefix:
            raise ValueError(
                f"limiter prefix {prefix!r}: leave out '{{', it would end up in the keys' hash tag"
            )
        self._redis = redis
        self._prefix = prefix
        self._max_wait_s = max_wait_s
        self._acquire = redis.register_script(script_text("acquire"))
        self._settle = redis.register_script(script_text("settle"))
        self._view = redis.register_script(script_text("view"))
        self._doors: defaultdict[str, _Door] = defaultdict(_Door)

    async def turn(self, lane: str, request_id: str, tokens: int, limits: Limits, lease_s: float) -> Decision:
        """Wait until this call may be sent, or until it is clear that this takes longer than `max_wait_s`.

        Granted: `wait_s` is 0, send now. Refused: park the call and come back after `wait_s`. Takes what
        `acquire` takes. When cancelled it gives up what it holds.
        """
        try:
            decision = await self._enter(lane, request_id, tokens, limits, lease_s)
            while decision.granted and decision.wait_s:
                await asyncio.sleep(decision.wait_s)
                if decision.wait_s <= SHORT_WAIT_S:
                    return Decision(granted=True, wait_s=0, reason="ok")
                decision = await self.acquire(lane, request_id, tokens, limits, lease_s)
        except asyncio.CancelledError:
            with suppress(LimiterUnavailable):  # its lease ends by itself
                await self.give_up(lane, request_id)
            raise
        return decision

    async def acquire(
        self, lane: str, request_id: str, tokens: int, limits: Limits, lease_s: float
    ) -> Decision:
        """Ask for a slot.

        `request_id` is new for every attempt; asked again, it gets what is left of its wait. `tokens` is the
        upper bound (prompt and `max_tokens`). The lease runs from the slot and must outlive the call's
        deadline: after it, the concurrency slot is free again and the tokens stay charged. Refused when the
        wait is longer than `max_wait_s`, not counting the time in which the limits pay for this call alone.
        """
        if tokens < 0:
            raise ValueError(f"call {request_id}: an estimate of {tokens} tokens; give 0 or more")
        granted, wait_ms, reason, free = await self._run(
            self._acquire,
            lane,
            request_id,
            tokens,
            round(lease_s * 1000),
            round(self._max_wait_s * 1000),
            limits.requests_per_minute or 0,
            limits.tokens_per_minute or 0,
            limits.concurrency or 0,
        )
        self._report(lane, free)
        if isinstance(reason, bytes):  # the client may or may not decode answers
            reason = reason.decode()
        return Decision(granted=bool(granted), wait_s=wait_ms / 1000, reason=reason)

    async def settle(
        self, lane: str, request_id: str, *, tokens: int | None, result: Result, cool_down_s: float = 0
    ) -> None:
        """End a call that was sent: charge what it used instead of what was expected, once.

        Unknown tokens (`None`) keep the expected ones charged. An id that is not held (settled, lease over,
        Redis flushed) changes nothing, except that `throttled` starts a cool-down in any case.
        """
        await self._end(lane, request_id, "" if tokens is None else tokens, result, cool_down_s)

    async def give_up(self, lane: str, request_id: str) -> None:
        """Hand back the slot of a call that was not sent; once, and without harm for one that holds none."""
        await self._end(lane, request_id, "", "given_up", 0)

    async def view(self, lane: str) -> LimiterView:
        """The lane as it is now. Changes nothing."""
        answer = await self._run(self._view, lane)
        requests, tokens, in_flight, waiting, concurrency, cool, backlog, ratio = (
            float(number) if number else None for number in answer
        )
        return LimiterView(
            requests_level=requests,
            tokens_level=tokens,
            in_flight=int(in_flight or 0),
            waiting=int(waiting or 0),
            concurrency=int(concurrency or 0),
            cool_down_until=None if cool is None else datetime.fromtimestamp(cool, UTC),
            backlog_s=backlog or 0.0,
            tokens_per_estimated_token=ratio or 0.0,
        )

    async def _enter(
        self, lane: str, request_id: str, tokens: int, limits: Limits, lease_s: float
    ) -> Decision:
        """Stand in this process's line until the first decision that is not 'come back soon'."""
        door = self._doors[lane]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._max_wait_s
        try:
            async with asyncio.timeout_at(deadline):
                await door.first.acquire()
        except TimeoutError:
            return door.refusal
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min(deadline, door.ask_at)):
                        await door.free.wait()
                if loop.time() >= deadline and not door.free.is_set():
                    return door.refusal
                decision = await self.acquire(lane, request_id, tokens, limits, lease_s)
                if not decision.granted:
                    door.refusal = decision
                    door.free.clear()
                door.postpone()
                if decision.granted or decision.wait_s > self._max_wait_s:
                    return decision
        finally:
            door.first.release()

    async def _end(
        self, lane: str, request_id: str, tokens: int | str, result: str, cool_down_s: float
    ) -> None:
        _, free, waiting = await self._run(
            self._settle, lane, request_id, tokens, result, round(cool_down_s * 1000)
        )
        # The first waiter of this process learns at once of what is freed here, which costs no polling. Now
        # and then a slot is left to the waiters of other processes, so that none of them starves.
        others = waiting - self._doors[lane].first.locked()
        if others <= 0 or random.random() >= YIELD_SHARE:
            self._report(lane, free)

    def _report(self, lane: str, free: int) -> None:
        if free > 0:
            self._doors[lane].free.set()
        else:
            self._doors[lane].free.clear()

    async def _run(self, script: Any, lane: str, *args: int | str) -> Any:
        try:
            keys = [lane_key(lane, part, self._prefix) for part in LANE_PARTS]
            return await script(keys=keys, args=args)
        except (RedisError, OSError) as error:
            raise LimiterUnavailable(
                f"the limiter got no answer from Redis for {lane} ({type(error).__name__}: {error}); nothing is "
                "sent until it does. Check that the broker runs and that PARETOKEN_BROKER_URL names it."
            ) from error


def lane_key(lane: str, part: str, prefix: str = PREFIX) -> str:
    """The Redis key of one of `LANE_PARTS`."""
    return f"{prefix}:{{{lane}}}:{part}"


def script_text(name: str) -> str:
    """The Lua source of one decision, the shared part in front."""
    folder = files("workers")
    return "\n".join(folder.joinpath(f"limiter_{part}.lua").read_text("utf-8") for part in ("state", name))
