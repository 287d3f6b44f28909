"""A worker process: Celery takes shards from the broker, the engine's loop does the work.

Celery's thread pool exits as soon as its slots are free, and they are free while calls are in flight; so a bootstep
of the worker drains the engine when Celery stops.
"""

import asyncio
import contextlib
import gc
import logging
import threading
import warnings
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from celery import Celery, bootsteps
from celery.platforms import SecurityWarning
from celery.worker import state
from celery.worker.request import Request

from workers.app import SHARD_TASK, Shard, make_app
from workers.descriptors import allow_many
from workers.engine import Engine, EngineSettings
from workers.pool import ShardPool

if TYPE_CHECKING:
    from workers.metrics import WorkerMetrics

log = logging.getLogger(__name__)

# Shards that may wait for a slot at once.
SLOTS = 2
DRAIN_S = 600.0
_LOOK_S = 0.5

Result = TypeVar("Result")


class ShardRequest(Request):  # type: ignore[misc]
    """A message that nobody waits to hear of: the queue's `no_ack` alone does not keep Celery from acknowledging it."""

    def acknowledge(self) -> None:
        self.acknowledged = True


class EngineThread:
    """The engine's loop in a thread of its own."""

    def __init__(self, settings: EngineSettings, metrics: "WorkerMetrics | None") -> None:
        self._settings = settings
        self._metrics = metrics
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._engine: Engine | None = None
        self.failure: BaseException | None = None
        """Why it could not start."""
        self.celery: Any = None
        """Celery's own worker, around it."""

    def start(self) -> None:
        self._thread.start()
        opening = asyncio.run_coroutine_threadsafe(self._open(), self._loop)
        while not opening.done():
            with contextlib.suppress(TimeoutError):
                opening.exception(timeout=_LOOK_S)
            # Celery itself looks only once everything has started, and Postgres may be away for long.
            state.maybe_shutdown()
        self.failure = opening.exception()
        if self.failure is not None:
            # Any other exception Celery logs with its traceback, and it ends as if all were well either way.
            raise SystemExit(1)
        self._engine = opening.result()
        log.info(
            "Worker %s is ready: %d calls in flight at the most.",
            self._engine.worker,
            self._settings.concurrency,
        )

    def admit(self, shard: Shard) -> None:
        assert self._engine is not None
        self._do(self._engine.admit(shard))

    def stop(self) -> None:
        if self._engine is not None:
            self._do(self._engine.close(deadline_s=DRAIN_S))
        # The loop goes on until the process ends: a slot of Celery's that comes with one more shard is answered.

    async def _open(self) -> Engine:
        engine = Engine(self._settings, self._metrics)
        await engine.open()
        return engine

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def worker_app(
    settings: EngineSettings, metrics: "WorkerMetrics | None" = None
) -> tuple[Celery, EngineThread]:
    """The Celery app of a worker process, with its task and the step that starts and drains the engine."""
    app = make_app(settings.broker_url)
    app.conf.worker_pool = ShardPool
    # Why it could not start is said on standard error itself, in one line.
    app.conf.worker_redirect_stdouts = False
    engine = EngineThread(settings, metrics)

    def shard(pairs: Shard) -> None:
        engine.admit([(int(job), int(dispatch_no)) for job, dispatch_no in pairs])

    app.task(shard, name=SHARD_TASK, Request=ShardRequest)

    class EngineStep(bootsteps.StartStopStep):  # type: ignore[misc]
        """After the pool, so that it stops before it: no shard comes in while the engine drains."""

        requires = ("celery.worker.components:Pool",)

        def __init__(self, parent: Any, **options: Any) -> None:
            super().__init__(parent, **options)
            engine.celery = parent

        def start(self, parent: Any) -> None:
            engine.start()

        def stop(self, parent: Any) -> None:
            engine.stop()

        terminate = stop

    app.steps["worker"].add(EngineStep)
    return app, engine


def run_worker(settings: EngineSettings, metrics: "WorkerMetrics | None" = None) -> None:
    """Work until SIGTERM or SIGINT; a second one ends at once. Raises what kept the engine from starting.

    Raises:
        SystemExit: Celery failed, and has logged why.
    """
    # The warning is about pickled messages; only JSON is accepted here.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    allow_many()
    # Calls in flight make many objects and few cycles: looking for those as often as is usual takes a tenth of the CPU.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    app, engine = worker_app(settings, metrics)
    app.worker_main(
        [
            "--quiet",
            "worker",
            f"--concurrency={SLOTS}",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            "--loglevel=WARNING",
        ]
    )
    if engine.failure is not None:
        raise engine.failure
    # Celery's own command line keeps it to itself.
    if engine.celery is None or engine.celery.exitcode:
        raise SystemExit(1)
