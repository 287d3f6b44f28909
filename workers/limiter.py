"""One budget of requests, tokens and concurrency per gateway key and model, shared by all workers everywhere.

A *lane* is `endpoint:key-fingerprint:model`. Its state lives in Redis (6.2 or newer) or Valkey under four
keys with the hash tag `{lane}`; decisions are Lua scripts (`limiter_*.lua`), atomic, on the server's clock,
and each takes some calls of one process in their order.

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
estimate times actual / estimated, both summed over about the last 100 successful calls of the lane (starting at
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

**Together.** Of a process's waiters for a lane the first one asks for those behind it too, and calls that are over at
once, as after a group commit, are settled by one script (`workers.line`).
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from workers.limits import (
    STOPPED,
    Asked,
    Decision,
    Ended,
    LimiterUnavailable,
    LimiterView,
    Limits,
    Reason,
    Result,
)
from workers.line import Line, Together

PREFIX = "paretoken"
LANE_PARTS = ("lane", "flight", "held", "waiting")
"""What a lane's state consists of; `held` has a field for each id that holds a slot (`limiter_state.lua`)."""
SHORT_WAIT_S = 0.05
"""After so short a wait `turn` does not ask again: a cool-down begun in it counts as just missed."""
YIELD_SHARE = 1 / 8
"""How often a process leaves what it has freed to other processes' waiters instead of its own."""


@dataclass(frozen=True, kw_only=True)
class _Lane:
    """A lane as this process knows it."""

    line: Line
    ends: Together[Ended]


class Limiter:
    """Asks Redis for every call. One object per process and event loop; it opens and closes no connection.

    Every method but `stop` raises `LimiterUnavailable` when Redis gives no answer.
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
        self._lanes: dict[str, _Lane] = {}
        self._stopped = asyncio.Event()

    async def turn(self, lane: str, request_id: str, tokens: int, limits: Limits, lease_s: float) -> Decision:
        """Wait until this call may be sent, or until it is clear that this takes longer than `max_wait_s`.

        Granted: `wait_s` is 0, send now. Refused: park the call and come back after `wait_s`; at once, where `stop` let
        it go. Takes what `acquire` takes. When cancelled it gives up what it holds.
        """
        asked = Asked(request_id=request_id, tokens=tokens, limits=limits, lease_s=lease_s)
        try:
            decision = await self._lane(lane).line.enter(asked)
            while decision.granted and decision.wait_s:
                await self._sleep(decision.wait_s)
                if self._stopped.is_set():
                    await self.give_up(lane, asked.request_id)
                    return STOPPED
                if decision.wait_s <= SHORT_WAIT_S:
                    return Decision(granted=True, wait_s=0, reason="ok")
                [decision] = await self._ask(lane, limits, [asked])
        except asyncio.CancelledError:
            with suppress(LimiterUnavailable):  # its lease ends by itself
                await self.give_up(lane, asked.request_id)
            raise
        return decision

    def stop(self) -> None:
        """Let all go who wait for their turn: the process ends."""
        self._stopped.set()
        for lane in self._lanes.values():
            lane.line.stop()

    async def acquire(
        self, lane: str, request_id: str, tokens: int, limits: Limits, lease_s: float
    ) -> Decision:
        """Ask for a slot.

        `request_id` is new for every attempt; asked again, it gets what is left of its wait. `tokens` is the
        upper bound (prompt and `max_tokens`). The lease runs from the slot and must outlive the call's
        deadline: after it, the concurrency slot is free again and the tokens stay charged. Refused when the
        wait is longer than `max_wait_s`, not counting the time in which the limits pay for this call alone.
        """
        asked = Asked(request_id=request_id, tokens=tokens, limits=limits, lease_s=lease_s)
        [decision] = await self._ask(lane, limits, [asked])
        return decision

    async def settle(
        self, lane: str, request_id: str, *, tokens: int | None, result: Result, cool_down_s: float = 0
    ) -> None:
        """End a call that was sent: charge what it used instead of what was expected, once.

        Unknown tokens (`None`) keep the expected ones charged. An id that is not held (settled, lease over,
        Redis flushed) changes nothing, except that `throttled` starts a cool-down in any case.
        """
        ended = Ended(request_id=request_id, tokens=tokens, result=result, cool_down_s=cool_down_s)
        await self._lane(lane).ends.put(ended)

    async def give_up(self, lane: str, request_id: str) -> None:
        """Hand back the slot of a call that was not sent; once, and without harm for one that holds none."""
        await self._lane(lane).ends.put(Ended(request_id=request_id, tokens=None, result="given_up"))

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

    def _lane(self, name: str) -> _Lane:
        if name not in self._lanes:
            line = Line(
                lambda limits, asked: self._ask(name, limits, asked),
                lambda request_id: self.give_up(name, request_id),
                max_wait_s=self._max_wait_s,
            )
            self._lanes[name] = _Lane(line=line, ends=Together(lambda ended: self._end(name, ended)))
            if self._stopped.is_set():
                line.stop()
        return self._lanes[name]

    async def _ask(self, lane: str, limits: Limits, asked: Sequence[Asked]) -> list[Decision]:
        """A decision for each call, up to the first one that is refused."""
        each = [
            value for call in asked for value in (call.request_id, call.tokens, round(call.lease_s * 1000))
        ]
        free, *answers = await self._run(
            self._acquire,
            lane,
            round(self._max_wait_s * 1000),
            limits.requests_per_minute or 0,
            limits.tokens_per_minute or 0,
            limits.concurrency or 0,
            *each,
        )
        self._lane(lane).line.learn(free)
        return [
            Decision(granted=bool(granted), wait_s=wait_ms / 1000, reason=_reason(reason))
            for granted, wait_ms, reason in zip(answers[::3], answers[1::3], answers[2::3], strict=True)
        ]

    async def _end(self, lane: str, ended: Sequence[Ended]) -> None:
        each = [
            value
            for call in ended
            for value in (
                call.request_id,
                "" if call.tokens is None else call.tokens,
                call.result,
                round(call.cool_down_s * 1000),
            )
        ]
        free, waiting = await self._run(self._settle, lane, *each)
        # The first waiter of this process learns at once of what is freed here, which costs no polling. Now
        # and then it is left to the waiters of other processes, so that none of them starves.
        line = self._lane(lane).line
        others = waiting - bool(line)
        if others <= 0 or random.random() >= YIELD_SHARE:
            line.learn(free)

    async def _sleep(self, wait_s: float) -> None:
        """Until the time is over or all are let go."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._stopped.wait()

    async def _run(self, script: Any, lane: str, *args: int | str) -> Any:
        try:
            keys = [lane_key(lane, part, self._prefix) for part in LANE_PARTS]
            return await script(keys=keys, args=args)
        except (RedisError, OSError) as error:
            raise LimiterUnavailable(
                f"the limiter got no answer from Redis for {lane} ({type(error).__name__}: {error}); nothing is "
                "sent until it does. Check that the broker runs and that PARETOKEN_BROKER_URL names it."
            ) from error


def _reason(answer: Any) -> Reason:
    """The client may or may not decode answers."""
    return cast(Reason, answer.decode() if isinstance(answer, bytes) else answer)


def lane_key(lane: str, part: str, prefix: str = PREFIX) -> str:
    """The Redis key of one of `LANE_PARTS`."""
    return f"{prefix}:{{{lane}}}:{part}"


def script_text(name: str) -> str:
    """The Lua source of one decision, the shared part in front."""
    folder = files("workers")
    return "\n".join(folder.joinpath(f"limiter_{part}.lua").read_text("utf-8") for part in ("state", name))
