"""The dispatcher: moves pending jobs to queued and publishes them, keeping a bounded number in the broker.

The database is committed first and the message sent then: a message without its row would run what nobody counts,
a row without its message is found by the reaper.
"""

import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from datetime import datetime

from celery import Celery
from kombu.exceptions import OperationalError

from db import dispatch
from db.connection import Connection
from db.dispatch import OpenLane
from workers.app import Shard, send_shard

log = logging.getLogger(__name__)

MOST_QUEUED = 2_000
SHARD_JOBS = 50
# A small batch is spread over the workers rather than given to one.
_SHARDS_PER_BATCH = 16
_PUBLISH_RETRY_S = 1.0

_numbers = itertools.count()


class Dispatcher:
    """Dispatches for all runs; there is one at a time (`dispatch.try_lock`)."""

    def __init__(self, connection: Connection, app: Celery) -> None:
        self._connection = connection
        self._app = app

    def tick(self) -> int:
        """Queue what may be queued now; give how many jobs were."""
        lanes = dispatch.open_lanes(self._connection)
        dispatched = 0
        for lane, most in _shares(lanes):
            shard, dispatched_at = dispatch.dispatch(self._connection, lane=lane, most=most)
            if dispatched_at is not None:
                self._publish(shard, dispatched_at)
                dispatched += len(shard)
            elif _has_budget(lane) and dispatch.stuck_on_budget(self._connection, run=lane.run):
                self._pause(lane)
        return dispatched

    def _publish(self, jobs: Shard, dispatched_at: datetime) -> None:
        shards = list(_shards(jobs))
        while shards:
            try:
                with self._app.producer_pool.acquire(block=True) as producer:
                    while shards:
                        message_id = f"{dispatched_at.timestamp():.6f}-{next(_numbers)}"
                        send_shard(self._app, producer, shards[0], message_id)
                        shards.pop(0)
            except (OperationalError, ConnectionError, OSError) as error:
                # While the broker is away nothing else could be sent either.
                log.warning("The broker is away (%s); trying again.", type(error).__name__)
                time.sleep(_PUBLISH_RETRY_S)

    def _pause(self, lane: OpenLane) -> None:
        reason = (
            "Its budget does not cover another call. Raise [budget] in a new run, or report what is there."
        )
        dispatch.pause_run(self._connection, run=lane.run, reason=reason)
        log.warning("A run was paused: %s", reason)


def _has_budget(lane: OpenLane) -> bool:
    return lane.tokens_left is not None or lane.cost_left_usd is not None


def _shares(lanes: Sequence[OpenLane]) -> Iterator[tuple[OpenLane, int]]:
    """How many jobs each lane may be given: an equal share of the bounded queue; one until the lane is proven."""
    share = MOST_QUEUED // max(len(lanes), 1)
    for lane in lanes:
        most = share - lane.queued if lane.proven else 1 - lane.queued - lane.running
        if most > 0:
            yield lane, most


def _shards(jobs: Shard) -> Iterator[Shard]:
    size = min(SHARD_JOBS, -(-len(jobs) // _SHARDS_PER_BATCH))
    for first in range(0, len(jobs), size):
        yield jobs[first : first + size]
