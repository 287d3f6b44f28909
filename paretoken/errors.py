"""What goes wrong in the front door, as exceptions whose message is shown to the user as it is.

    ParetokenError
    ├── InputError   what the user gave cannot be used; exit code 2
    └── RunFailed    the input was fine, the work failed; exit code 1

Every message says what is wrong, where, and what to do next.
"""

from typing import ClassVar


class ParetokenError(Exception):
    """Base of all errors that the command line shows without a traceback."""

    exit_code: ClassVar[int] = 1


class InputError(ParetokenError):
    """A file, option, environment variable or folder that cannot be used."""

    exit_code: ClassVar[int] = 2


class RunFailed(ParetokenError):
    """A run, or a server that it needs, failed."""
