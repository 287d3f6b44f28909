"""The scheduler process: dispatches, reaps and finishes runs until it is told to stop. Any number may stand by."""

import logging
import math
import signal
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING

import redis

from db import connection as db_connection
from db import dispatch
from db.connection import AWAY, Connection
from db.errors import DatabaseUnreachable
from db.judging import plan_judgings
from scheduler.dispatcher import Dispatcher
from scheduler.judges import judge_plans
from scheduler.reaper import Reaper, Rescued
from workers.app import make_app
from workers.judges import FRAME_BYTES

if TYPE_CHECKING:
    from scheduler.metrics import SchedulerMetrics

log = logging.getLogger(__name__)

BUSY_S = 0.05
IDLE_S = 0.2
STANDBY_S = 2.0
AWAY_S = 1.0
REAP_EVERY_S = 2.0


class Scheduler:
    """The loop of a scheduler process."""

    def __init__(
        self, *, database_url: str, broker_url: str, lease_s: float, metrics: "SchedulerMetrics | None" = None
    ) -> None:
        self._database_url = database_url
        self._metrics = metrics
        self._app = make_app(broker_url)
        self._broker_url = broker_url
        self._broker = redis.Redis.from_url(broker_url, socket_timeout=10, socket_connect_timeout=3)
        self._lease_s = lease_s
        self._stop = threading.Event()

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Schedule until `stop`; whenever Postgres was away, begin anew with a fresh connection."""
        while not self._stop.is_set():
            try:
                with db_connection.connect(
                    self._database_url, application="paretoken scheduler"
                ) as connection:
                    db_connection.never_hold_locks_asleep(connection)
                    self._lead(connection)
            except (*AWAY, DatabaseUnreachable) as error:
                said = str(error).strip().partition("\n")[0]
                log.warning("Postgres is away (%s); trying again.", said)
                self._stop.wait(AWAY_S)

    def _lead(self, connection: Connection) -> None:
        said = False
        while not dispatch.try_lock(connection):
            if not said:
                log.info("Another scheduler is at work; standing by.")
                said = True
            self._tell(leads=False)
            if self._stop.wait(STANDBY_S):
                return
        log.info("Scheduling.")
        # Until another one is seen at work: should Postgres go away, its being down is what has to be told.
        self._tell(leads=True)
        dispatcher = Dispatcher(connection, self._app, stop=self._stop)
        # A fresh reaper trusts no lease for a while, which is right after Postgres was away.
        reaper = Reaper(connection, self._broker, broker_url=self._broker_url, lease_s=self._lease_s)
        reap_every_s = min(REAP_EVERY_S, self._lease_s / 6)
        reaped_at = -math.inf
        while not self._stop.is_set():
            rescued = Rescued()
            if time.monotonic() - reaped_at >= reap_every_s:
                reaped_at = time.monotonic()
                # Reaping comes first: it marks the broker before anything is published there.
                rescued = reaper.tick()
            dispatched = dispatcher.tick()
            for run in plan_judgings(connection, plans=judge_plans, frame_bytes=FRAME_BYTES):
                log.info("The judgings of run number %d are planned.", run)
            finished = dispatch.finish_runs(connection)
            for run_id in finished:
                log.info("Run %s is finished.", run_id)
            if self._metrics:
                self._metrics.ticked(dispatched=dispatched, finished=len(finished), rescued=rescued)
            self._stop.wait(BUSY_S if dispatched else IDLE_S)

    def _tell(self, *, leads: bool) -> None:
        if self._metrics:
            self._metrics.leads = leads


def serve(
    *, database_url: str, broker_url: str, lease_s: float, metrics: "SchedulerMetrics | None" = None
) -> None:
    """Schedule until SIGTERM or SIGINT."""
    scheduler = Scheduler(database_url=database_url, broker_url=broker_url, lease_s=lease_s, metrics=metrics)

    def end(number: int, frame: FrameType | None) -> None:
        scheduler.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    scheduler.run()
