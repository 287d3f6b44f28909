"""Limits that the sandbox sets on its own process; on Windows there are none but the worker's watch."""

import math
import sys

MEMORY_BYTES = 1 << 30


def limit_cpu(cpu_s: int) -> None:
    """End this process (SIGXCPU) after this much computing from now on."""
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + cpu_s)


def limit_all() -> None:
    """Bound memory, and let no file be written."""
    if sys.platform != "win32":
        _limit(resource.RLIMIT_AS, MEMORY_BYTES)
        _limit(resource.RLIMIT_FSIZE, 0)
        _limit(resource.RLIMIT_CORE, 0)


if sys.platform != "win32":
    import resource

    def _limit(which: int, value: int) -> None:
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(which, (value, hard))
