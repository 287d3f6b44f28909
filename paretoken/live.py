"""The live view of a run: a display that renews itself on a terminal, plain lines in a log."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from db.connection import Connection
from paretoken.description import Pace, describe
from scheduler.progress import Progress as RunProgress
from scheduler.progress import progress

POLL_S = 0.5
# A look may take this share of the time: counting a million jobs twice a second would slow the run itself.
_LOOKING_SHARE = 0.1
LINE_EVERY_S = 5.0
# In a long run lines get rarer: one for each twentieth of its time so far, up to one in five minutes.
_LINES_PER_TIME = 20
_LINE_AT_LEAST_EVERY_S = 300.0


More = Callable[[RunProgress], Sequence[str]]
"""Further lines about a run, already safe for a terminal."""


Look = tuple[RunProgress, Pace]
"""The run at one moment, and its pace so far."""


def watch(
    connection: Connection,
    run_id: str,
    *,
    alive: Callable[[], None] = lambda: None,
    more: More = lambda seen: (),
    out: TextIO = sys.stderr,
) -> RunProgress:
    """Show the run until it is finished, paused or cancelled, and its calls in flight have ended; give its last state.

    `alive` is called with every look at a running run; what it raises ends the watching.
    """
    console = Console(file=out)
    if console.is_terminal:
        return _watch_live(connection, run_id, alive, more, console)
    return _watch_lines(connection, run_id, alive, more, out)


def _watch_live(
    connection: Connection, run_id: str, alive: Callable[[], None], more: More, console: Console
) -> RunProgress:
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=40), TaskProgressColumn(), console=console
    )
    task = bar.add_task("trials", total=None)
    # Redrawn when there is news, and not in between: nothing flickers. The last picture stays.
    with Live(console=console, auto_refresh=False) as live:
        for seen, pace in looks(connection, run_id, alive):
            bar.update(task, total=seen.total_trials, completed=seen.total_trials - seen.open_trials)
            lines = (*describe(seen, pace), *more(seen))
            live.update(Group(bar, *(Text(line) for line in lines)), refresh=True)
    return seen


def _watch_lines(
    connection: Connection, run_id: str, alive: Callable[[], None], more: More, out: TextIO
) -> RunProgress:
    for seen, pace in now_and_then(looks(connection, run_id, alive)):
        done = seen.total_trials - seen.open_trials
        cancelled = f" ({seen.trials['cancelled']:,} cancelled)" if "cancelled" in seen.trials else ""
        line = "; ".join((*describe(seen, pace)[1:], *more(seen)))
        print(f"{done:,}/{seen.total_trials:,} trials{cancelled}; {line}", file=out, flush=True)
    return seen


def now_and_then(looks: Iterable[Look]) -> Iterator[Look]:
    """The first look, the last one, and of those between one every few seconds, in a long run ever rarer."""
    began = time.monotonic()
    next_line = began
    for look in looks:
        now = time.monotonic()
        if look[0].at_rest or now >= next_line:
            yield look
            pause = max(LINE_EVERY_S, (now - began) / _LINES_PER_TIME)
            next_line = now + min(pause, _LINE_AT_LEAST_EVERY_S)


def looks(connection: Connection, run_id: str, alive: Callable[[], None] = lambda: None) -> Iterator[Look]:
    """The run's state again and again, until it goes on no more and its calls in flight have ended."""
    pace = Pace()
    rested = False
    while True:
        began = time.monotonic()
        seen = progress(connection, run_id)
        took_s = time.monotonic() - began
        if seen.at_rest and not rested and seen.state != "finished":
            # Looked at twice: a call that was being sent may have missed that the run stops.
            rested = True
            time.sleep(POLL_S)
            continue
        rested = False
        pace.add(calls=seen.ok_calls, tokens=seen.tokens)
        yield seen, pace
        if seen.at_rest:
            return
        if seen.state == "running":
            alive()
        time.sleep(max(POLL_S, took_s / _LOOKING_SHARE))
