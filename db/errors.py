"""The exceptions of this package.

DatabaseError
├── DatabaseUrlInvalid    the URL is none
├── DatabaseUnreachable   nothing answers at the URL
├── NotMigrated           the schema is missing, older or newer than this program
├── UnknownRun            no run of that name
├── ImportedRun           a run that came from a ledger file cannot be run
├── LedgerInvalid         a ledger file that cannot be read, with its line
└── UnknownTimeZone       the database knows no time zone of that name
"""


class DatabaseError(Exception):
    """Base of what this package raises; the message says what to do next."""


class DatabaseUrlInvalid(DatabaseError):
    """Postgres' client cannot read the database URL. The message holds nothing of it."""


class DatabaseUnreachable(DatabaseError):
    """Nothing answers at the database URL, or it refuses the login."""


class NotMigrated(DatabaseError):
    """The schema is not the one that this version works with."""


class UnknownRun(DatabaseError):
    """There is no run of that name."""


class ImportedRun(DatabaseError):
    """The run came from a ledger file: there is nothing to run it with."""


class LedgerInvalid(DatabaseError):
    """A ledger file holds something that is no ledger row."""


class UnknownTimeZone(DatabaseError):
    """The database knows no time zone of that name."""
