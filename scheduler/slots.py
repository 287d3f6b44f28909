"""Slots of the limiter that nobody holds any more.

A worker that was killed leaves them behind, a broker that lost its last second shows them again, and a worker whose
broker was away could not give them back: they would block their lane until the calls' time-out. Postgres knows who is
at work: a job that is not running under a ticket's dispatch never will be again.
"""

import logging
import re
import time
from collections.abc import Callable

import redis

from db import dispatch
from db.connection import Connection
from scheduler.lanes import Slot, free_slots
from workers.limiter import lane_key

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
# A call is settled in Postgres a moment before its worker tells the limiter what it has really used.
GRACE_S = 5.0

_TICKET = re.compile(r"([0-9]{1,18}):([0-9]{1,9})", re.ASCII)


class Slots:
    """Frees what has been without a holder for a while. Raises `redis.RedisError` and `LimiterUnavailable`."""

    def __init__(
        self,
        connection: Connection,
        broker: redis.Redis,
        *,
        broker_url: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._broker = broker
        self._broker_url = broker_url
        self._clock = clock
        self._looked = float("-inf")
        self._abandoned: dict[Slot, float] = {}
        """Since when nobody has been seen to hold it."""

    def look(self) -> None:
        """Look now and then, however often it is asked."""
        now = self._clock()
        if now < self._looked + LOOK_EVERY_S:
            return
        self._looked = now
        self._abandoned = {slot: self._abandoned.get(slot, now) for slot in self._of_nobody(self._held())}
        freed = [slot for slot, since in self._abandoned.items() if now >= since + GRACE_S]
        if freed:
            free_slots(self._broker_url, freed)
            log.warning("Freed %d slots of the limiter that nobody held any more.", len(freed))

    def _held(self) -> list[Slot]:
        lanes = dispatch.lane_names(self._connection)
        with self._broker.pipeline(transaction=False) as pipeline:
            for lane in lanes:
                pipeline.hkeys(lane_key(lane, "held"))
            tickets = pipeline.execute()
        return [
            (lane, ticket.decode("utf-8", "replace"))
            for lane, found in zip(lanes, tickets, strict=True)
            for ticket in found
        ]

    def _of_nobody(self, held: list[Slot]) -> list[Slot]:
        # Whatever else stands there is not one of our workers'.
        jobs = {
            ticket: (int(match[1]), int(match[2]))
            for _, ticket in held
            if (match := _TICKET.fullmatch(ticket))
        }
        abandoned = dispatch.tickets_of_nobody(self._connection, jobs) if jobs else set()
        return [slot for slot in held if slot[1] in abandoned]
