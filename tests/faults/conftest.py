"""A gateway, a run and the processes that work on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from paretoken.services import Services
from paretoken.simulator import SimulatedGateway
from tests import warm
from tests.experiments import write_tasks
from tests.faults.processes import Cast
from tests.faults.runs import MOST_TASKS, SECRET
from tests.runs import KEY


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[SimulatedGateway]:
    tasks = write_tasks(tmp_path, MOST_TASKS)
    with warm.launch(tasks=tasks, latency_ms=30) as running:
        yield running


@pytest.fixture
def cast(database_url: str, broker_url: str, tmp_path: Path) -> Iterator[Cast]:
    """Processes that end with the test."""
    cast = Cast(services=Services(database_url=database_url, broker_url=broker_url), logs=tmp_path / "logs")
    yield cast
    cast.end()
