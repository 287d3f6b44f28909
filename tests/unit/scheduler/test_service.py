"""The scheduler's loop, on a clock of its own."""

from types import SimpleNamespace

import pytest

from scheduler import service
from scheduler.reaper import Rescued
from scheduler.service import Scheduler


class Clock:
    """Time passes only while the loop waits; after 9 s it is told to stop."""

    def __init__(self) -> None:
        self.now = 0.0

    def is_set(self) -> bool:
        return self.now >= 9

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.is_set()


@pytest.mark.parametrize("dispatched", [0, 1], ids=["idle", "busy"])
def test_it_reaps_by_the_clock_however_busy_it_is(monkeypatch: pytest.MonkeyPatch, dispatched: int) -> None:
    clock, reaped = Clock(), []

    def reap() -> Rescued:
        reaped.append(clock.now)
        return Rescued()

    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(
        service,
        "dispatch",
        SimpleNamespace(try_lock=lambda connection: True, finish_runs=lambda connection: []),
    )
    monkeypatch.setattr(service, "plan_judgings", lambda connection, **given: [])
    monkeypatch.setattr(
        service, "Dispatcher", lambda *given, **named: SimpleNamespace(tick=lambda: dispatched)
    )
    monkeypatch.setattr(service, "Reaper", lambda *given, **named: SimpleNamespace(tick=reap))
    scheduler = Scheduler(database_url="postgresql://unused", broker_url="redis://127.0.0.1:1/0", lease_s=60)
    monkeypatch.setattr(scheduler, "_stop", clock)
    scheduler._lead(SimpleNamespace())  # type: ignore[arg-type]
    # Each may be one idle wait later than two seconds after the one before.
    assert reaped == pytest.approx([0, 2, 4, 6, 8], abs=4 * service.IDLE_S)
