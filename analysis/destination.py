"""Where a file is renamed into place."""

import errno
from pathlib import Path


def destination(path: Path) -> Path:
    """The path without symbolic links, so that what a link leads to is replaced and the link stays.

    Raises:
        OSError: a device, folder, pipe or socket is there, which a file would take the place of.
    """
    resolved = path.resolve()
    if resolved.exists() and not resolved.is_file():
        raise FileExistsError(errno.EEXIST, "something is there that is no regular file", str(path))
    return resolved
