"""A worker's dialogue with the limiter: may a call go, and what has it used."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from redis.asyncio import Redis

from db.work import Claimed
from workers.context import RunContext
from workers.gateway import Disposition, Outcome, Request
from workers.limiter import Limiter
from workers.limits import LimiterUnavailable
from workers.reservation import estimated_tokens
from workers.settling import may_be_paid
from workers.waiting import unless

log = logging.getLogger(__name__)

# A wait of the limiter that is longer than this sends the job back to Postgres; it would only fill memory here.
MAX_WAIT_S = 20.0
NEVER_SENT = ("connection", "not_sent", "program_missing")
_RETRY_S = 1.0


class Admission:
    """Asks for a call's slot under a ticket, and gives it back by it."""

    def __init__(self, broker: Redis, *, lease_s: float, stopped: "asyncio.Future[None]") -> None:
        self._limiter = Limiter(broker, max_wait_s=MAX_WAIT_S)
        self._lease_s = lease_s
        self._stopped = stopped
        stopped.add_done_callback(lambda _: self._limiter.stop())

    async def ask(
        self, job: Claimed, run: RunContext, request: Request, lane: str, ticket: str
    ) -> float | None:
        """Wait for the limiter. None: go; a number: hand the job back, not before so many seconds."""
        tokens = estimated_tokens(request.messages, request.max_tokens, request.extra)
        lease_s = run.deadline_s(job.strategy) + MAX_WAIT_S + self._lease_s
        while not self._stopped.done():
            try:
                decision = await self._limiter.turn(lane, ticket, tokens, run.limits, lease_s)
            except LimiterUnavailable as error:
                log.warning("%s", error)
                await unless(self._stopped, asyncio.sleep(_RETRY_S))
                continue
            return None if decision.granted else decision.wait_s
        return 0.0

    async def give_up(self, lane: str, ticket: str) -> None:
        """The call is not sent."""
        await self._say(self._limiter.give_up(lane, ticket))

    async def report(self, lane: str, ticket: str, outcome: Outcome) -> None:
        """Tell the limiter what the call really used, and of a 429."""
        if outcome.error in NEVER_SENT:
            await self.give_up(lane, ticket)
            return
        throttled = outcome.disposition is Disposition.THROTTLED
        # A refused call has used nothing of the limit; an agent's may have been served before.
        nothing = throttled and not may_be_paid(outcome)
        await self._say(
            self._limiter.settle(
                lane,
                ticket,
                tokens=0 if nothing else outcome.usage.total_tokens,
                result="throttled" if throttled else "ok" if outcome.status == "ok" else "other",
                cool_down_s=(outcome.retry_after_s or 0.0) if throttled else 0.0,
            )
        )

    async def _say(self, message: Coroutine[Any, Any, None]) -> None:
        """A message that the limiter can do without: its leases end by themselves."""
        try:
            await message
        except LimiterUnavailable as error:
            log.warning("%s", error)
