"""One run of a program: started under its guardian, read within limits, ended in any case."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

MOST_OUTPUT_BYTES = 16_000_000
TAIL_BYTES = 4_000
_END_S = 10.0
_CHUNK = 65_536
_GUARDIAN = str(Path(__file__).with_name("guardian.py"))


Ended = Literal["by itself", "time", "output", "worker"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a program ended, and what it printed."""

    ended: Ended
    """Or what ended it: its time was over, it printed too much, the worker stops."""
    code: int | None
    """Exit code; None where it was ended."""
    printed: bytes
    """Standard output, at most `MOST_OUTPUT_BYTES`."""
    last_words: bytes
    """The end of standard error."""
    latency_ms: int


async def run_program(
    command: Sequence[str],
    scratch: Path,
    variables: Mapping[str, str],
    *,
    wall_time_s: float,
    stopped: "asyncio.Future[Any]",
) -> Run:
    """Run it in `scratch/work` with this environment alone, until it ends or its time, or `stopped`, does."""
    began = time.monotonic()
    group, pipe = os.pipe()
    try:
        guardian = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-B", _GUARDIAN, str(scratch), str(pipe), *command,
            env=dict(variables), pass_fds=(pipe,),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # an interrupt from the keyboard is for the worker, which ends it
        )  # fmt: skip
    except BaseException:
        os.close(group)
        raise
    finally:
        os.close(pipe)
    output = _Output()
    reading = asyncio.create_task(output.read(guardian))
    ends: dict[Ended, asyncio.Future[Any]] = {
        "by itself": asyncio.create_task(guardian.wait()),
        "output": asyncio.create_task(output.full.wait()),
        "worker": stopped,
    }
    try:
        await asyncio.wait(ends.values(), timeout=wall_time_s, return_when=asyncio.FIRST_COMPLETED)
        ended: Ended = next((why for why, end in ends.items() if end.done()), "time")
    except asyncio.CancelledError:
        ended = "worker"  # its patience is over; what was started has to be told of all the same
    try:
        await _end(guardian, reading, _Group(group))
    finally:
        os.close(group)
    ends["output"].cancel()
    return Run(
        ended=ended,
        code=guardian.returncode if ended == "by itself" else None,
        printed=bytes(output.printed),
        last_words=bytes(output.last_words),
        latency_ms=round((time.monotonic() - began) * 1000),
    )


class _Output:
    """What a program prints; read to its end, but not all of it kept."""

    def __init__(self) -> None:
        self.printed = bytearray()
        self.last_words = bytearray()
        self.full = asyncio.Event()

    async def read(self, guardian: asyncio.subprocess.Process) -> None:
        assert guardian.stdout is not None
        assert guardian.stderr is not None
        await asyncio.gather(self._read(guardian.stdout), self._tail(guardian.stderr))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_CHUNK):
            self.printed += chunk[: MOST_OUTPUT_BYTES - len(self.printed)]
            if len(self.printed) == MOST_OUTPUT_BYTES:
                self.full.set()

    async def _tail(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_CHUNK):
            self.last_words += chunk
            del self.last_words[:-TAIL_BYTES]


class _Group:
    """The program's process group, which its guardian tells on a pipe."""

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._told = b""

    def end_unguarded(self, guardian: asyncio.subprocess.Process) -> None:
        """A guardian that ends by itself has ended the group, and the number may be another's by now."""
        if guardian.returncode is None or guardian.returncode >= 0:
            return
        with contextlib.suppress(BlockingIOError):
            self._told += os.read(self._pipe, 32)
        if self._told:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(self._told), signal.SIGKILL)


async def _end(guardian: asyncio.subprocess.Process, reading: "asyncio.Task[None]", group: _Group) -> None:
    """Let go of the pipe, at which the guardian ends the program; a guardian that does not end is killed."""
    assert guardian.stdin is not None
    guardian.stdin.close()
    group.end_unguarded(guardian)
    # A process that has left the program's group may hold its output open: nobody waits for that one.
    await asyncio.wait({reading}, timeout=_END_S)
    reading.cancel()
    if guardian.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            guardian.kill()
    await guardian.wait()
    group.end_unguarded(guardian)
