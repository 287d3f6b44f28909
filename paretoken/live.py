"""The live view of a run: a display that renews itself on a terminal, plain lines in a log."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from analysis.safetext import terminal_text
from db.connection import Connection
from scheduler.progress import Progress as RunProgress
from scheduler.progress import progress

POLL_S = 0.5
LINE_EVERY_S = 5.0
# The rate is measured over so many polls.
_WINDOW = 20


class Rate:
    """Calls per second over the last polls."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def add(self, calls: int) -> None:
        self._seen = [*self._seen[-_WINDOW:], (time.monotonic(), calls)]

    @property
    def calls_per_s(self) -> float | None:
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None


def watch(
    connection: Connection, run_id: str, *, alive: Callable[[], None], out: TextIO = sys.stderr
) -> RunProgress:
    """Show the run until it is finished, paused or cancelled; give its last state.

    `alive` is called with every look; what it raises ends the watching.
    """
    console = Console(file=out)
    if console.is_terminal:
        return _watch_live(connection, run_id, alive, console)
    return _watch_lines(connection, run_id, alive, out)


def _watch_live(
    connection: Connection, run_id: str, alive: Callable[[], None], console: Console
) -> RunProgress:
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=40), TaskProgressColumn(), console=console
    )
    task = bar.add_task("trials", total=None)
    rate = Rate()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while True:
            seen = progress(connection, run_id)
            rate.add(seen.calls)
            bar.update(task, total=seen.total_trials, completed=seen.total_trials - seen.open_trials)
            live.update(Group(bar, *(Text(line) for line in describe(seen, rate))))
            if seen.state != "running":
                return seen
            alive()
            time.sleep(POLL_S)


def _watch_lines(connection: Connection, run_id: str, alive: Callable[[], None], out: TextIO) -> RunProgress:
    rate = Rate()
    next_line = 0.0
    while True:
        seen = progress(connection, run_id)
        rate.add(seen.calls)
        if seen.state != "running" or time.monotonic() >= next_line:
            done = seen.total_trials - seen.open_trials
            print(
                f"{done}/{seen.total_trials} trials; " + "; ".join(describe(seen, rate)), file=out, flush=True
            )
            next_line = time.monotonic() + LINE_EVERY_S
        if seen.state != "running":
            return seen
        alive()
        time.sleep(POLL_S)


def describe(seen: RunProgress, rate: Rate | None = None) -> list[str]:
    """The run in a few plain lines; safe for a terminal."""
    lines = [
        _counts("trials", seen.trials),
        f"calls: {seen.calls:,} done, {seen.in_flight} in flight, {seen.waiting} waiting for capacity, "
        f"{seen.open_jobs:,} open" + _pace(seen, rate),
        f"tokens: {seen.input_tokens:,} in, {seen.output_tokens:,} out; cost: {_cost(seen)}",
    ]
    if seen.errors:
        lines.append(_counts("errors", seen.errors))
    for wait in seen.waits:
        what = "the gateway asked all to wait" if wait.why == "hold" else "waiting for a retry"
        reason = f" ({wait.reason})" if wait.reason else ""
        lines.append(
            f"{wait.jobs:,} jobs of {wait.model}: {what} until {wait.until.astimezone():%Y-%m-%d %H:%M:%S}{reason}"
        )
    return [terminal_text(line) for line in lines]


def _counts(name: str, counts: object) -> str:
    assert isinstance(counts, dict)
    return f"{name}: " + (
        ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items())) or "none"
    )


def _pace(seen: RunProgress, rate: Rate | None) -> str:
    per_s = rate and rate.calls_per_s
    if not per_s or per_s <= 0:
        return ""
    # Later rounds are not planned yet, so the time left is a lower bound where strategies have several.
    left = timedelta(seconds=round(seen.open_jobs / per_s))
    return f"; {per_s:,.1f} calls/s, about {left} left" if seen.open_jobs else f"; {per_s:,.1f} calls/s"


def _cost(seen: RunProgress) -> str:
    if not seen.unpriced_models:
        return f"${seen.cost_usd:.4f}"
    known = f"${seen.cost_usd:.4f} and " if seen.cost_usd else ""
    return f"{known}unknown for {', '.join(seen.unpriced_models)} (no price)"
