"""A finished run leaves the database: its ledger is in a file that was read again, then its rows are deleted."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from db.connection import Connection
from db.errors import LedgerInvalid
from db.ledger import export_lines
from db.ledger_files import LedgerFile, ledger_file
from db.ledger_row import LedgerRow, check_row
from db.queries import SQL
from db.runs import find_run


@dataclass(frozen=True, kw_only=True)
class VerifiedFile:
    """A file whose rows are those of the run's ledger."""

    run_id: str
    calls: int
    total_tokens: int
    sha256: str


def verified(connection: Connection, path: Path, *, run_id: str) -> VerifiedFile:
    """Read the file again and hold it against the ledger, row by row.

    Raises:
        LedgerInvalid: it cannot be read, or a row is not what the ledger says.
    """
    run = find_run(connection, run_id)["id"]
    file = ledger_file(path)
    tokens = number = 0
    rows = file.rows()
    for line in export_lines(connection, run=run):
        number += 1
        found = next(rows, None)
        row = _row(file, number, line)
        if found is None or _row(file, *found) != row:
            raise LedgerInvalid(f"{path}: row {number} is not what the ledger says. Export the run again.")
        tokens += row.total_tokens or 0
    if next(rows, None) is not None:
        raise LedgerInvalid(f"{path}: holds more than {number:,} rows. Export the run again.")
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return VerifiedFile(run_id=run_id, calls=number, total_tokens=tokens, sha256=digest)


def _row(file: LedgerFile, number: int, line: bytes) -> LedgerRow:
    # Times and numbers are written differently by the formats, and mean the same.
    return check_row(line, file.place, number)


def archive_run(connection: Connection, file: VerifiedFile) -> int:
    """Delete the run; give the number of its calls. The table `archive` keeps what its file is known by.

    Raises:
        psycopg.errors.RestrictViolation: it is not over, or the ledger has changed since.
        psycopg.errors.InsufficientPrivilege: only the owner of the tables may.
    """
    row = connection.execute(SQL["archive_run"], vars(file)).fetchone()
    assert row is not None
    return int(row["calls"])
