"""The reaper: takes back jobs and slots that nobody holds any more, and requeues jobs whose message is gone.

Rows of workers that ended long ago are deleted, the only thing that is deleted by itself.
"""

import json
import logging
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import redis

from db import dispatch
from db.connection import Connection
from scheduler.slots import Slots
from workers import failpoints
from workers.app import QUEUE
from workers.limits import LimiterUnavailable

log = logging.getLogger(__name__)

MARKER = f"{QUEUE}:marker"


@dataclass(frozen=True, kw_only=True)
class Rescued:
    """Jobs that one look took back."""

    from_workers: int = 0
    """Held by workers that vanished."""
    from_queue: int = 0
    """Queued, and their message is gone."""


class Reaper:
    """Works beside the dispatcher, in the same process and under the same lock."""

    def __init__(
        self, connection: Connection, broker: redis.Redis, *, broker_url: str, lease_s: float
    ) -> None:
        self._connection = connection
        self._broker = broker
        self._slots = Slots(connection, broker, broker_url=broker_url)
        self._lease_s = lease_s
        # Between taking a message and claiming its jobs a worker needs a moment.
        self._grace = timedelta(seconds=lease_s / 2)
        # Workers may not have been able to renew their leases before: they get one lease's time.
        self._trust_from = time.monotonic() + lease_s
        self._ticked = time.monotonic()
        self._held_up = False

    def tick(self) -> Rescued:
        self._look_at_the_clock()
        released = self._look_at_workers()
        failpoints.reach("reaper_released")
        requeued = 0
        try:
            requeued = self._requeue_lost_messages()
            self._slots.look()
        except (redis.RedisError, LimiterUnavailable) as error:
            log.warning("The broker is away (%s).", type(error).__name__)
        return Rescued(from_workers=released, from_queue=requeued)

    def _look_at_the_clock(self) -> None:
        """What has held us up may have held up the workers' heartbeats too: then they get one lease's time."""
        now = time.monotonic()
        held_up = now - self._ticked > self._lease_s * 2 / 3
        # Once only: where every tick is late, waiting would never end.
        if held_up and not self._held_up:
            self._trust_from = now + self._lease_s
        self._held_up, self._ticked = held_up, now

    def _look_at_workers(self) -> int:
        """Take back what lost ones held, and forget those that ended long ago; the number of jobs taken back."""
        if time.monotonic() < self._trust_from or dispatch.postgres_up_s(self._connection) < self._lease_s:
            return 0
        released = dispatch.release_lost(self._connection)
        if released:
            log.warning("Took back %d jobs of workers that vanished.", len(released))
        if forgotten := dispatch.forget_workers(self._connection):
            log.info("Forgot %d workers that ended a day ago.", forgotten)
        return len(released)

    def _requeue_lost_messages(self) -> int:
        before = self._messages_gone_before()
        if before is None:
            return 0
        requeued = dispatch.unqueue_lost(self._connection, before=before)
        if requeued:
            log.warning("Requeued %d jobs whose message was lost.", len(requeued))
        return len(requeued)

    def _messages_gone_before(self) -> datetime | None:
        """Jobs dispatched before this time and still queued have no message any more. The broker is first in, first
        out: everything older than the oldest waiting message was taken or lost. Never because a queue is slow."""
        now = dispatch.database_time(self._connection)
        # Set once; whoever flushes the broker takes it away, and with it every message.
        if self._broker.set(MARKER, secrets.token_hex(8), nx=True):
            failpoints.reach("reaper_marked")
            return now
        oldest = self._broker.lindex(QUEUE, -1)
        if oldest is None:
            return now - self._grace
        try:
            sent = float(json.loads(oldest)["headers"]["id"].partition("-")[0])
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("The queue %s holds a message of somebody else's.", QUEUE)
            return None
        return datetime.fromtimestamp(sent, UTC) - self._grace
