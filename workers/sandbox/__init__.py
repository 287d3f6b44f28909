"""Runs what a hostile text could make endless in a process of its own, with limits.

Such a process (`program.py`) is kept for the next time: starting Python for every answer would cost more
than everything else a worker does for it. It gets an empty environment, so it can know no key.
"""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from workers.sandbox.errors import Refused

__all__ = ["CPU_S", "LOAD_S", "Refused", "run"]

CPU_S = 2
"""Computing time that one action may take. It is no matter of how busy the machine is."""
LOAD_S = 10
"""For reading the files of a task, where they may be large."""
WALL_S = 60.0
"""A second, much longer limit, for systems that have no limit of computing time."""

_ROOT = str(Path(__file__).parents[2])
# Isolated Python (-I) looks for modules neither in the environment nor in the present folder.
_START = "import sys; sys.path.insert(0, sys.argv[1]); from workers.sandbox.program import main; main()"
_KEPT_VARIABLES = ("SYSTEMROOT",)  # Windows cannot start Python without it

_SIGXCPU = getattr(signal, "SIGXCPU", 0)

_idle: list["subprocess.Popen[str]"] = []
if hasattr(os, "register_at_fork"):
    # A forked process must not talk into its parent's pipes.
    os.register_at_fork(after_in_child=_idle.clear)


class _Ended(Exception):
    """The process went away without a reply."""


def run(action: str, *, load_s: int | None = None, **arguments: Any) -> Any:
    """Do one action of `program.py` with JSON arguments and return its JSON result.

    `load_s` is computing time for reading large files, before the action itself begins to count.

    Raises:
        Refused: the action refused what it was given, or ran into a limit.
    """
    limit_s = CPU_S if load_s is None else load_s
    request = json.dumps({"action": action, "arguments": arguments, "cpu_s": limit_s}) + "\n"
    try:
        reply = _exchange(_take(), request)
    except _Ended:
        # It may have been killed by someone while it was idle; an answer that kills it will do so again.
        try:
            reply = _exchange(_start(), request)
        except _Ended:
            raise Refused("stopped: the process that ran it broke down") from None
    if "refused" in reply:
        raise Refused(reply["refused"])
    return reply["result"]


def _take() -> "subprocess.Popen[str]":
    try:
        return _idle.pop()
    except IndexError:
        return _start()


def _start() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", _START, _ROOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="ascii",
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
        cwd=tempfile.gettempdir(),
        start_new_session=True,  # an interrupt from the keyboard is for the worker, which drains
    )


def _exchange(process: "subprocess.Popen[str]", request: str) -> dict[str, Any]:
    """Send the request and wait for the reply; afterwards the process is idle, or gone."""
    assert process.stdin is not None
    assert process.stdout is not None
    watch = threading.Timer(WALL_S, process.kill)
    watch.start()
    try:
        process.stdin.write(request)
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = ""
    finally:
        # Once it is cancelled it has not fired; the timer's own event says which of the two came first.
        fired = watch.finished.is_set()
        watch.cancel()
    if line.endswith("\n"):
        _idle.append(process)
        return dict(json.loads(line))
    if _end(process) == -_SIGXCPU or fired:
        return {"refused": f"stopped: it took more than {CPU_S} s of computing"}
    raise _Ended


def _end(process: "subprocess.Popen[str]") -> int:
    """Remove a process that is of no more use; its return code."""
    process.kill()
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        # What could not be sent to it is lost with it.
        with contextlib.suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()
    return code


@atexit.register
def _end_idle() -> None:
    while _idle:
        _end(_idle.pop())
