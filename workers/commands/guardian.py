"""Runs one program for a worker, and ends it and all that it started when the worker lets go of the pipe or dies.

    python -I -B guardian.py SCRATCH PROGRAM [ARGUMENT ...]

SCRATCH holds `prompt.txt`, which becomes the program's standard input, and the folder `work`, where it runs. Standard
input is the worker's pipe: nobody writes to it, its end is the sign. Then SCRATCH is removed too.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

CANNOT_RUN = 127
"""What a shell says of a program that it cannot start."""


def main() -> int:
    scratch = Path(sys.argv[1])
    with (scratch / "prompt.txt").open("rb") as prompt:
        try:
            program = subprocess.Popen(
                sys.argv[2:], cwd=scratch / "work", stdin=prompt, start_new_session=True
            )
        except OSError as error:
            sys.stderr.write(f"{sys.argv[2]}: {error.strerror}\n")
            return CANNOT_RUN
    threading.Thread(target=_await_worker, args=(program, scratch), daemon=True).start()
    code = program.wait()
    end_group(program)
    return code if code >= 0 else 128 - code


def _await_worker(program: "subprocess.Popen[bytes]", scratch: Path) -> None:
    while os.read(0, 1024):
        pass
    end_group(program)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def end_group(program: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(program.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
