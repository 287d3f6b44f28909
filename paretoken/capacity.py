"""What the shared limiter allows a run now: why calls wait, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from db.queries import SQL
from db.reader import Reader
from scheduler.lanes import lane_views
from workers.limits import LimiterView

# Below so much nobody would call it a wait.
_NOTABLE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """One lane of a run as the limiter sees it."""

    model: str
    view: LimiterView


def capacities(connection: Reader, broker_url: str, *, run: int) -> Sequence[Capacity] | None:
    """The lanes of a run; None where the broker does not answer."""
    lanes = connection.execute(SQL["run_lanes"], {"run": run}).fetchall()
    views = lane_views(broker_url, [lane["lane_name"] for lane in lanes])
    if views is None:
        return None
    return [Capacity(model=lane["model"], view=view) for lane, view in zip(lanes, views, strict=True)]


def capacity_lines(capacities: Sequence[Capacity] | None) -> list[str]:
    """The same for a person."""
    if capacities is None:
        return ["limits: unknown, the broker does not answer"]
    return [f"{each.model}: {_line(each.view)}" for each in capacities if each.view.concurrency]


def _line(view: LimiterView) -> str:
    text = f"{view.in_flight:,} of {view.concurrency:,} calls that may be in flight now"
    if view.cool_down_until is not None:
        text += f"; the gateway asked all to wait until {view.cool_down_until.astimezone():%H:%M:%S}"
    elif view.backlog_s >= _NOTABLE_S:
        until = datetime.now().astimezone() + timedelta(seconds=view.backlog_s)
        text += f"; waiting for the rate limit, the next call may go at {until:%H:%M:%S}"
    return text
