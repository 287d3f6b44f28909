"""Nobody keeps books of the messages that workers take."""

from collections.abc import Iterator

import pytest
from celery import Celery
from kombu import Message

from workers.app import SHARD_TASK, make_app
from workers.engine import EngineSettings
from workers.process import worker_app

URL = "redis://127.0.0.1:1/0"


@pytest.fixture
def app() -> Iterator[Celery]:
    app, _ = worker_app(
        EngineSettings(database_url="postgresql://127.0.0.1:1/x", broker_url=URL, concurrency=1)
    )
    yield app
    app.close()


def test_a_shard_is_never_acknowledged(app: Celery) -> None:
    acknowledged: list[object] = []
    task = app.tasks[SHARD_TASK]
    request = task.Request(
        Message(body=b"[[[1, 1]], {}, {}]", headers={"id": "1", "task": SHARD_TASK}, delivery_info={}),
        app=app,
        task=task,
        on_ack=lambda *_: acknowledged.append(True),
        body=([[1, 1]], {}, {}),
        decoded=True,
    )
    request.acknowledge()
    assert request.acknowledged
    assert acknowledged == []


def test_the_transport_is_told_not_to_wait_for_it() -> None:
    app = make_app(URL)
    assert [queue.no_ack for queue in app.conf.task_queues] == [True]
