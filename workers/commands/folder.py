"""A trial's folder on this machine while a program works in it: laid out before, read afterwards."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from workers.tools import Folder
from workers.tools.base import MAX_FILE_BYTES, ToolRefused

_MOST_ENTRIES = 10_000


def lay_out(work: Path, files: Mapping[str, bytes]) -> None:
    """Write the task's files by their names, which may hold folders, none outside."""
    for name, content in files.items():
        path = work / PurePosixPath(name)
        if not path.resolve().is_relative_to(work.resolve()):
            raise ValueError(f"the file name {name!r} leads out of the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def written(
    work: Path, task_files: Mapping[str, bytes], *, key: str
) -> tuple[Mapping[str, bytes], Sequence[str]]:
    """What the program has left in the folder, and the names of what is not kept, under an agent's limits.

    Only plain files are looked at: a link may lead anywhere. A key in one of them is struck out, and in the names of
    what is not kept, which is whatever has it in its own.
    """
    folder = Folder(task_files=task_files)
    not_kept = []
    known = {PurePosixPath(name).parts[0] for name in task_files}
    with os.scandir(work) as entries:
        names = sorted(entry.name for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False))
    for name in names:
        if name in known:
            continue
        content = _content(work / name)
        try:
            if content is None or key in name:
                raise ToolRefused("no plain file")
            folder.write(name, content.replace(key.encode(), b"[key]"))
        except ToolRefused:
            not_kept.append(name.replace(key, "[key]"))
    return folder.written, not_kept


def _content(path: Path) -> bytes | None:
    """The content of a plain file; one that is too large a byte more than it may have."""
    try:
        found = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        return None
    with os.fdopen(found, "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)
