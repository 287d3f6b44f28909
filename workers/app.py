"""The Celery app. Postgres keeps the truth, so Celery only carries hints.

A message is a shard of (job, dispatch_no) pairs, and who takes it has it: nothing is acknowledged (`workers.process`),
so the transport keeps no books in Redis, and the reaper requeues jobs whose message was lost. No result backend, no
ETA, no retry, no revoke: Redis redelivers such messages after its visibility time-out, keeps them in memory and can
lose one for good.
"""

from collections.abc import Sequence
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

QUEUE = "paretoken"
SHARD_TASK = "paretoken.shard"

Shard = Sequence[tuple[int, int]]


def make_app(broker_url: str) -> Celery:
    """A Celery app for this broker; the worker adds the task, the dispatcher only sends its name."""
    app = Celery("paretoken", broker=broker_url, set_as_current=False)
    app.conf.update(
        # The anonymous exchange needs no binding in Redis, so a flushed broker still routes.
        task_queues=[Queue(QUEUE, Exchange(""), routing_key=QUEUE, no_ack=True)],
        task_default_queue=QUEUE,
        task_default_exchange="",
        task_default_routing_key=QUEUE,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        worker_disable_prefetch=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "socket_timeout": 10,
            "socket_connect_timeout": 3,
            "health_check_interval": 5,
        },
    )
    return app


def send_shard(app: Celery, producer: Any, shard: Shard, message_id: str) -> None:
    """Publish one shard. `message_id` begins with its time, by which a lost message is told from a waiting one."""
    app.send_task(
        SHARD_TASK,
        args=[list(shard)],
        task_id=message_id,
        exchange="",
        routing_key=QUEUE,
        producer=producer,
        retry=False,
        argsrepr="",
        kwargsrepr="",
    )
