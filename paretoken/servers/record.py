"""What has to be remembered of a server from one start to the next."""

import json
import os
import secrets
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from paretoken.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Record:
    """Kept as `NAME.json`, readable for its owner alone."""

    port: int | None = None
    """Port of the last start; None before the first."""
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    account: str = "self"
    """Identity that the data belongs to: `self`, `namespace` or `nobody`."""
    outside: str | None = None
    """Folder of the data where it had to lie outside the data folder; None: inside it."""

    def require_usable(self) -> None:
        """Raise `ValueError` for what no record can hold."""
        port_right = self.port is None or (type(self.port) is int and 0 < self.port < 2**16)
        texts = (self.password, self.account, self.outside or "/")
        if not port_right or not all(isinstance(text, str) and text for text in texts):
            raise ValueError("no record")

    def place(self, folder: Path, name: str) -> Path:
        """Folder with everything the server itself reads and writes."""
        return Path(self.outside) if self.outside else folder / name


def read(path: Path) -> Record | None:
    """The record, None when there is none yet. Raises `InputError` for one that cannot be used."""
    try:
        record = Record(**json.loads(path.read_text()))
        record.require_usable()
        return record
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise InputError(f"{path} belongs to another user: run as that user.") from error
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path} is damaged: restore it, or move its folder away to begin with empty data."
        ) from error


def write(path: Path, record: Record) -> None:
    """Replace the record on disk, durably."""
    write_private(path, json.dumps(asdict(record)))


def write_private(path: Path, text: str, *, uid: int | None = None) -> None:
    """Write `text` for its owner (`uid`, default the caller) alone to read.

    The temporary file has a new name, so that a link planted in another user's folder is not followed.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w") as file:
        if uid is not None:
            os.fchown(descriptor, uid, uid)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    Path(temporary).replace(path)
