"""Runs one program for a worker, and ends it and all that it started when the worker lets go of the pipe or dies.

    python -I -B guardian.py SCRATCH PIPE PROGRAM [ARGUMENT ...]

SCRATCH holds `prompt.txt`, which becomes the program's standard input, and the folder `work`, where it runs. Standard
input is the worker's pipe: nobody writes to it, its end is the sign. Then SCRATCH is removed too. PIPE is the number of
another one: the worker reads the program's group there, to end it if the program kills its guardian.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

CANNOT_RUN = 127
"""What a shell says of a program that it cannot start."""

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_MOST_ROUNDS = 1000


def main() -> int:
    scratch, pipe, command = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    libc = _adopt()

    def told() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.write(pipe, str(os.getpid()).encode())

    with (scratch / "prompt.txt").open("rb") as prompt:
        try:
            program = subprocess.Popen(
                command,
                cwd=scratch / "work",
                stdin=prompt,
                start_new_session=True,
                preexec_fn=told,  # noqa: PLW1509 - no thread runs yet
            )
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
            return CANNOT_RUN
    threading.Thread(target=_await_worker, args=(program, scratch), daemon=True).start()
    code = program.wait()
    _end_all(program)
    return code if code >= 0 else 128 - code


def _await_worker(program: "subprocess.Popen[bytes]", scratch: Path) -> None:
    while os.read(0, 1024):
        pass
    _end_all(program)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def _adopt() -> "ctypes.CDLL | None":
    """On Linux, what the program leaves behind becomes this process's child, also what has left its group."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return libc


def _end_all(program: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of the group has ended
        os.killpg(program.pid, signal.SIGKILL)
    # Each that ends may leave children of its own.
    for _ in range(_MOST_ROUNDS):
        children = _children()
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    try:
        return [int(child) for child in listed.read_text().split()]
    except OSError:  # another system, or a kernel that does not tell
        return []


if __name__ == "__main__":
    sys.exit(main())
