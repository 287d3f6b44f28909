"""One run of a program: started under its guardian, read within limits, ended in any case."""

import asyncio
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


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a program ended, and what it printed."""

    ended: Literal["by itself", "time", "output", "worker"]
    """Or what ended it: its time was over, it printed too much, the worker stops."""
    code: int | None
    """Exit code; None where it was ended."""
    printed: bytes
    """Standard output, at most `MOST_OUTPUT_BYTES`."""
    last_words: bytes
    """The end of standard error."""
    latency_ms: int


class _TooMuch(Exception):
    """The program prints without end."""


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
    guardian = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-B", _GUARDIAN, str(scratch), *command,
        env=dict(variables),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # an interrupt from the keyboard is for the worker, which ends it
    )  # fmt: skip
    printed, last_words = bytearray(), bytearray()
    whole = asyncio.create_task(_whole(guardian, printed, last_words))
    given_up = stopped
    try:
        await asyncio.wait({whole, stopped}, timeout=wall_time_s, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        # The worker's patience is over; what was started has to be told of all the same.
        given_up = asyncio.get_running_loop().create_future()
        given_up.set_result(None)
    ended = _how(whole, given_up)
    await _end(guardian, whole)
    return Run(
        ended=ended,
        code=guardian.returncode if ended == "by itself" else None,
        printed=bytes(printed[:MOST_OUTPUT_BYTES]),
        last_words=bytes(last_words),
        latency_ms=round((time.monotonic() - began) * 1000),
    )


def _how(whole: "asyncio.Task[None]", stopped: "asyncio.Future[Any]") -> Any:
    if whole.done():
        return "output" if whole.exception() else "by itself"
    return "worker" if stopped.done() else "time"


async def _whole(guardian: asyncio.subprocess.Process, printed: bytearray, last_words: bytearray) -> None:
    assert guardian.stdout is not None
    assert guardian.stderr is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_read(guardian.stdout, printed))
        group.create_task(_tail(guardian.stderr, last_words))
        group.create_task(guardian.wait())


async def _read(stream: asyncio.StreamReader, printed: bytearray) -> None:
    while chunk := await stream.read(_CHUNK):
        printed += chunk
        if len(printed) > MOST_OUTPUT_BYTES:
            raise _TooMuch


async def _tail(stream: asyncio.StreamReader, last_words: bytearray) -> None:
    while chunk := await stream.read(_CHUNK):
        last_words += chunk
        del last_words[:-TAIL_BYTES]


async def _end(guardian: asyncio.subprocess.Process, whole: "asyncio.Task[None]") -> None:
    """Let go of the pipe, at which the guardian ends the program; a guardian that does not end is killed."""
    assert guardian.stdin is not None
    guardian.stdin.close()
    try:
        await asyncio.wait_for(guardian.wait(), _END_S)
    except TimeoutError:
        guardian.kill()
        await guardian.wait()
    whole.cancel()
    await asyncio.wait({whole})
    if not whole.cancelled():
        whole.exception()  # it was looked at before
