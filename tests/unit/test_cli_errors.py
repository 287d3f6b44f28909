"""How the command line ends where something outside of it fails: in one line and exit code 1."""

import errno
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from paretoken.cli import _exit_code, _message

FULL = Path("/dev/full")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        # As the driver says it of a day that Python has no calendar for, and as the server says it.
        (psycopg.DataError("timestamp too small (before year 1): '0001-12-31 10:00:00+00 BC'\nmore"), 1),
        (psycopg.errors.NumericValueOutOfRange("value out of range: overflow"), 1),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (OSError(errno.EROFS, "Read-only file system", "report.html"), 1),
        (OSError(errno.EBADF, "Bad file descriptor"), None),
        (ValueError("a mistake of our own"), None),
    ],
)
def test_what_fails_outside_ends_in_one_line(error: Exception, code: int | None) -> None:
    assert _exit_code(error) == code
    if code is not None:
        assert str(error).splitlines()[0].split("]")[-1].split(":")[0].strip() in _message(error)
        assert "\n" not in _message(error)


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [("strategies",), ("strategies", "--json"), ("--help",)])
def test_an_output_without_room(arguments: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "paretoken", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "Error: The output: cannot be written (No space left on device).\n",
    )
