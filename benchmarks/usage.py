"""What processes use of the machine, read from /proc (Linux)."""

import os
import re
import select
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_LOOK_S = 0.02
MB = 2**20


def tree(pid: int) -> set[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(entry.name)):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = set(), [pid]
    while waiting:
        found.add(one := waiting.pop())
        waiting += children.get(one, [])
    return found


def cpu_s(pids: Iterable[int], *, with_ended: bool = False) -> float:
    """Seconds of CPU so far; `with_ended` counts those of children that ended too."""
    ticks = 0
    for pid in pids:
        if fields := _stat(pid):
            ticks += sum(map(int, fields[11 : 15 if with_ended else 13]))
    return ticks * _TICK_S


def _stat(pid: int) -> Sequence[str]:
    """The fields behind the name, from the state on; nothing where the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def rss_mb(pid: int) -> float:
    """Memory now."""
    return _status_mb(pid, "VmRSS")


def peak_mb(pid: int) -> float:
    """The most memory so far. Unlike ru_maxrss it is not inherited from who started the process."""
    return _status_mb(pid, "VmHWM")


def _status_mb(pid: int, field: str) -> float:
    try:
        found = re.search(rf"{field}:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        found = None
    return int(found.group(1)) / 1024 if found else 0.0


def pss_mb(pids: Iterable[int]) -> float:
    """Memory now, in which what several processes share counts once."""
    total = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += int(re.search(r"^Pss:\s*(\d+)", text, re.MULTILINE).group(1))
    return total / 1024


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a command did."""

    seconds: float
    cpu_s: float
    peak_mb: float
    code: int
    output: str


def run_command(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Command:
    """Run a command to its end and watch its memory."""
    began = time.perf_counter()
    peak, used = 0.0, 0.0
    with subprocess.Popen(
        arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        output = bytearray()
        ended = os.pidfd_open(process.pid)
        while process.poll() is None:
            peak = max(peak, peak_mb(process.pid))
            used = max(used, cpu_s([process.pid]))
            output += process.stdout.read() or b""
            # Looks now and then, and is there at once when it ends.
            select.select([ended], [], [], _LOOK_S)
        os.close(ended)
        seconds = time.perf_counter() - began
        output += process.stdout.read() or b""
    text = output.decode(errors="replace")
    return Command(seconds=seconds, cpu_s=used, peak_mb=peak, code=process.returncode, output=text)
