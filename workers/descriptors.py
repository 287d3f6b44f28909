"""How many files and sockets this process may have open."""

import resource
from contextlib import suppress


def allow_many() -> None:
    """Raise the soft limit to the hard one: each call in flight is a connection, and the usual 1,024 are soon used."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS names no hard limit and takes none either.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
