"""What a scheduler tells its operator, as Prometheus reads it: docs/metrics.md lists every name and label.

What it does itself is counted. How things stand is read from Postgres and the broker when somebody collects, over
connections of its own, and by the one scheduler that is at work: what several told would be added up.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import redis
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from db import connection as db_connection
from db.connection import AWAY
from db.errors import DatabaseUnreachable
from db.queries import SQL
from scheduler.lanes import lane_views
from scheduler.reaper import Rescued
from workers.app import QUEUE
from workers.limits import LimiterView
from workers.metrics import LabelValues

MOST_LANES = 50
_QUESTION_S = 5


@dataclass(frozen=True, kw_only=True)
class LaneState:
    """A lane of a running run."""

    lane: int
    model: str
    hold_s: float
    view: LimiterView | None = None
    """None: the broker did not answer."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """How things stand at one moment."""

    database_up: bool
    broker_up: bool
    runs: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    workers: int = 0
    queue_messages: int = 0
    lanes: Sequence[LaneState] = ()


class SchedulerMetrics:
    """The counters of one scheduler process."""

    def __init__(self, *, database_url: str, broker_url: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.leads = False
        Gauge(
            "paretoken_scheduler_leading", "1: at work; 0: standing by.", registry=self.registry
        ).set_function(lambda: self.leads)
        self._dispatched = Counter(
            "paretoken_jobs_dispatched", "Jobs put into the queue.", registry=self.registry
        )
        self._rescued = Counter(
            "paretoken_jobs_rescued", "Jobs taken back.", ["lost"], registry=self.registry
        )
        self._finished = Counter(
            "paretoken_runs_finished", "Runs that were finished.", registry=self.registry
        )
        for lost in ("worker", "message"):
            self._rescued.labels(lost)
        self.registry.register(_Standing(self, database_url, broker_url))

    def ticked(self, *, dispatched: int, finished: int, rescued: Rescued) -> None:
        """One round of the loop is done."""
        self._dispatched.inc(dispatched)
        self._finished.inc(finished)
        self._rescued.labels("worker").inc(rescued.from_workers)
        self._rescued.labels("message").inc(rescued.from_queue)


class _Standing(Collector):
    def __init__(self, metrics: SchedulerMetrics, database_url: str, broker_url: str) -> None:
        self._metrics = metrics
        self._database_url = database_url
        self._broker_url = broker_url
        self._models = LabelValues()

    def collect(self) -> Iterable[Metric]:
        if not self._metrics.leads:
            return ()
        return families(take_snapshot(self._database_url, self._broker_url), self._models)


def take_snapshot(database_url: str, broker_url: str) -> Snapshot:
    """Ask both servers; what does not answer within seconds is down."""
    messages = _queue_messages(broker_url)
    try:
        with db_connection.connect(database_url, application="paretoken metrics") as connection:
            connection.execute(f"SET statement_timeout = '{_QUESTION_S}s'")
            runs = {row["state"]: row["runs"] for row in connection.execute(SQL["open_runs"])}
            jobs = {row["state"]: row["jobs"] for row in connection.execute(SQL["open_jobs"])}
            workers = len(connection.execute(SQL["live_workers"]).fetchall())
            lanes = connection.execute(SQL["lanes_at_work"], {"most": MOST_LANES}).fetchall()
    except (*AWAY, DatabaseUnreachable):
        return Snapshot(database_up=False, broker_up=messages is not None, queue_messages=messages or 0)
    views = None if messages is None else lane_views(broker_url, [row.pop("lane_name") for row in lanes])
    return Snapshot(
        database_up=True,
        broker_up=messages is not None,
        runs=runs,
        jobs=jobs,
        workers=workers,
        queue_messages=messages or 0,
        lanes=[
            LaneState(
                lane=row["lane"],
                model=row["model"],
                hold_s=row["hold_s"],
                view=views[place] if views else None,
            )
            for place, row in enumerate(lanes)
        ],
    )


def _queue_messages(broker_url: str) -> int | None:
    broker = redis.Redis.from_url(broker_url, socket_timeout=2, socket_connect_timeout=2)
    try:
        return int(broker.llen(QUEUE))
    except redis.RedisError:
        return None
    finally:
        broker.close()


def families(seen: Snapshot, models: LabelValues) -> Iterator[Metric]:
    """The gauges of a snapshot. What could not be asked is left out, never 0."""
    yield _gauge("database_up", "Whether Postgres answered.", seen.database_up)
    yield _gauge("broker_up", "Whether the broker answered.", seen.broker_up)
    if seen.broker_up:
        yield _gauge("queue_messages", "Shards of jobs in the broker.", seen.queue_messages)
    if not seen.database_up:
        return
    yield _gauge("workers", "Workers with a live lease.", seen.workers)
    yield _states("runs", "Runs that are not over.", seen.runs, ("running", "paused"))
    yield _states("jobs", "Jobs that are not over.", seen.jobs, ("pending", "queued", "running"))
    yield from _lanes(seen.lanes, models)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"paretoken_{name}", text, value=value)


def _states(name: str, text: str, counts: Mapping[str, int], states: Sequence[str]) -> Metric:
    family = GaugeMetricFamily(f"paretoken_{name}", text, labels=["state"])
    for state in states:
        family.add_metric([state], counts.get(state, 0))
    return family


def _lanes(lanes: Sequence[LaneState], models: LabelValues) -> Iterator[Metric]:
    told = {
        "hold_seconds": "A long wait that the gateway asked for.",
        "cool_down_seconds": "A short wait that the gateway asked for.",
        "backlog_seconds": "How long a call that asks now would wait.",
        "concurrency": "Calls in flight allowed now.",
        "in_flight": "Calls that hold a slot.",
        "waiting": "Processes that were told to come back.",
    }
    for name, text in told.items():
        family = GaugeMetricFamily(f"paretoken_lane_{name}", text, labels=["lane", "model"])
        for lane in lanes:
            value = _told(lane).get(name)
            if value is not None:
                family.add_metric([str(lane.lane), models(lane.model)], value)
        yield family


def _told(lane: LaneState) -> Mapping[str, float]:
    view = lane.view
    if view is None:
        return {"hold_seconds": lane.hold_s}
    until = view.cool_down_until
    return {
        "hold_seconds": lane.hold_s,
        "cool_down_seconds": 0.0 if until is None else max(until.timestamp() - time.time(), 0.0),
        "backlog_seconds": view.backlog_s,
        "concurrency": view.concurrency,
        "in_flight": view.in_flight,
        "waiting": view.waiting,
    }
