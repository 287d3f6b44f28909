"""Who a server runs as. PostgreSQL refuses to run as root, and no server needs to.

| account     | when                            | what it is                                                 |
|-------------|---------------------------------|------------------------------------------------------------|
| `self`      | the caller is an ordinary user  | the caller                                                 |
| `namespace` | root, where Linux allows it     | 65534 in a user namespace; outside, files remain root's    |
| `nobody`    | root, where that is not allowed | user 65534; its files must lie where that user can reach   |
"""

import os
import secrets
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from paretoken.errors import InputError
from paretoken.servers import launch
from paretoken.servers.binaries import Binary, copy
from paretoken.servers.process import clean_environment, launcher
from paretoken.servers.record import Record

OUTSIDE = Path("/var/lib/paretoken")
"""For data and programs whose account cannot reach the data folder (root's home is closed to others)."""


def uid_of(account: str) -> int:
    """Owner of the account's files, as the caller sees it."""
    return launch.NOBODY if account == "nobody" else os.geteuid()


def reaches(account: str, path: Path) -> bool:
    """Whether the account may enter the folder, or run the program, `path`."""
    return _check(account, path) == 0


def settle(record: Record, folder: Path, name: str) -> Record:
    """Choose account and place for the server `name`; make its folder there, with the data it has already.

    Raises `InputError` when the folder cannot be made.
    """
    account = _choose(record)
    outside = record.outside
    if account != "self" and outside is None and not reaches(account, folder):
        outside = str(OUTSIDE / f"{name}-{secrets.token_hex(8)}")
    settled = replace(record, account=account, outside=outside)
    old, new = record.place(folder, name), settled.place(folder, name)
    try:
        _make(new, old, uid_of(account))
    except OSError as error:
        raise InputError(
            f"{new} cannot be made ({error.strerror}): set PARETOKEN_HOME to another folder."
        ) from error
    return settled


def runnable(binary: Binary, account: str, place: Path) -> Binary:
    """The program itself, or a copy in `place` where the account cannot reach it."""
    if account == "self" or reaches(account, binary.path):
        return binary
    copied = copy(binary, place)
    _give(place, uid_of(account))
    return copied


def _choose(record: Record) -> str:
    if os.geteuid() != 0:
        return "self"
    if record.account == "nobody":
        return "nobody"  # its data exists and belongs to that user
    return "namespace" if _check("namespace", Path("/")) != launch.CANNOT_BECOME else "nobody"


def _check(account: str, path: Path) -> int:
    command = launcher(account, "check", str(path))
    return subprocess.run(command, env=clean_environment(), capture_output=True, check=False).returncode


def _make(place: Path, old: Path, uid: int) -> None:
    if place.is_relative_to(OUTSIDE):
        OUTSIDE.mkdir(parents=True, exist_ok=True)
        OUTSIDE.chmod(0o711)
    if old != place and old.exists():
        shutil.move(old, place)
    place.mkdir(mode=0o700, exist_ok=True)
    if place.stat().st_uid != uid:
        _give(place, uid)


def _give(place: Path, uid: int) -> None:
    if uid == os.geteuid():
        return
    for parent, folders, files in os.walk(place):
        for entry in (".", *folders, *files):
            os.chown(Path(parent) / entry, uid, uid, follow_symlinks=False)
