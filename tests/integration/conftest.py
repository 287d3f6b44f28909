"""A gateway and a crew of real processes for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from paretoken.processes import Crew
from paretoken.services import Services
from paretoken.simulator import SimulatedGateway
from tests import warm
from tests.experiments import write_tasks
from tests.runs import KEY


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the variable that holds the gateway's key."""
    monkeypatch.setenv(KEY, "sk-test-1234567890")
    return KEY


@pytest.fixture
def gateway(tmp_path: Path, key: str) -> Iterator[SimulatedGateway]:
    """A simulated gateway that knows 100 tasks and asks for the key."""
    with warm.launch(tasks=write_tasks(tmp_path, 100), api_key_env=key, latency_ms=20) as running:
        yield running


class _WarmCrew(Crew):
    """One that starts without the imports."""

    def begin(self, arguments: list[str], environment: dict[str, str], log: IO[bytes]) -> warm.Process:
        return warm.start(arguments, environment, log, stdin=True)


@pytest.fixture
def crew(database_url: str, broker_url: str, tmp_path: Path) -> Iterator[Crew]:
    """Scheduler and workers, not started yet; they are ended with the test."""
    crew = _WarmCrew(
        services=Services(database_url=database_url, broker_url=broker_url), logs=tmp_path / "logs", lease_s=3
    )
    yield crew
    crew.stop()
