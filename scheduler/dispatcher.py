"""The dispatcher: moves pending jobs to queued and publishes them, keeping a bounded number in the broker.

The database is committed first and the message sent then: a message without its row would run what nobody counts,
a row without its message is found by the reaper.
"""

import itertools
import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from db import dispatch
from db.connection import Connection
from db.dispatch import OpenLane
from db.runs import pause_run
from workers import failpoints
from workers.app import Shard, send_shard

log = logging.getLogger(__name__)

MOST_QUEUED = 2_000
SHARD_JOBS = 50
# A long queue is filled up when so much of it is free: by a few large messages, not by one for each job that was taken.
_REFILL = 1 / 4
# A small batch is spread over the workers rather than given to one.
_SHARDS_PER_BATCH = 16
_PUBLISH_RETRY_S = 1.0

_numbers = itertools.count()


class Dispatcher:
    """Dispatches for all runs; there is one at a time (`dispatch.try_lock`)."""

    def __init__(self, connection: Connection, app: Celery, *, stop: threading.Event) -> None:
        self._connection = connection
        self._app = app
        self._stop = stop

    def tick(self) -> int:
        """Queue what may be queued now; give how many jobs were."""
        dispatched = 0
        spent_tokens: dict[int, int] = defaultdict(int)
        spent_usd: dict[int, float] = defaultdict(float)
        idle: dict[int, OpenLane] = {}
        for open_lane, most in shares(dispatch.open_lanes(self._connection)):
            # The lanes were read at once: what another lane of the run was given since is spent too.
            lane = _charged(open_lane, spent_tokens[open_lane.run], spent_usd[open_lane.run])
            if lane.trials_have_budget:
                dispatch.exhaust_trials(self._connection, lane=lane, most=most)
            found = dispatch.dispatch(self._connection, lane=lane, most=most)
            spent_tokens[lane.run] += found.reserved_tokens
            spent_usd[lane.run] += found.reserved_cost_usd
            dispatched += len(found.jobs)
            if found.at is not None:
                self._publish(found.jobs, found.at)
            elif lane.run_has_budget:
                idle[lane.run] = lane
        for lane in idle.values():
            # Asked of the whole run, when each of its lanes has had its turn.
            if not spent_tokens[lane.run] and dispatch.stuck_on_budget(self._connection, lane=lane):
                self._pause(lane)
        return dispatched

    def _publish(self, jobs: Shard, dispatched_at: datetime) -> None:
        shards = list(_shards(jobs))
        failpoints.reach("dispatch_committed")
        # Told to stop while the broker is away, it leaves the rest to the reaper, who finds jobs without a message.
        while shards and not self._stop.is_set():
            try:
                with self._app.producer_pool.acquire(block=True) as producer:
                    while shards:
                        message_id = f"{dispatched_at.timestamp():.6f}-{next(_numbers)}"
                        send_shard(self._app, producer, shards[0], message_id)
                        shards.pop(0)
            except (OperationalError, redis.RedisError, OSError) as error:
                # While the broker is away nothing else could be sent either.
                log.warning("The broker is away (%s); trying again.", type(error).__name__)
                self._stop.wait(_PUBLISH_RETRY_S)

    def _pause(self, lane: OpenLane) -> None:
        reason = (
            "Its budget does not cover its next call. Raise [budget] in the experiment file and run it again."
        )
        pause_run(self._connection, run=lane.run, reason=reason)
        log.warning("A run was paused: %s", reason)


def _charged(lane: OpenLane, tokens: int, usd: float) -> OpenLane:
    return replace(
        lane,
        tokens_left=None if lane.tokens_left is None else lane.tokens_left - tokens,
        cost_left_usd=None if lane.cost_left_usd is None else lane.cost_left_usd - usd,
    )


def shares(lanes: Sequence[OpenLane]) -> Iterator[tuple[OpenLane, int]]:
    """How many jobs each lane may be given: what its equal share of the bounded queue lacks, if that is worth a batch.

    One until the lane is proven.
    """
    share = max(1, MOST_QUEUED // max(len(lanes), 1))
    for lane in lanes:
        most = share - lane.queued if lane.proven else 1 - lane.queued - lane.running
        least = max(1, share * _REFILL) if lane.proven else 1
        if most >= least:
            yield lane, most


def _shards(jobs: Shard) -> Iterator[Shard]:
    size = min(SHARD_JOBS, -(-len(jobs) // _SHARDS_PER_BATCH))
    for first in range(0, len(jobs), size):
        yield jobs[first : first + size]
