"""The exceptions of this package.

WorkerError
├── KeyUnusable        the gateway key's variable is missing, or holds what no gateway takes
└── WorkerMisplaced    a worker was started without the two URLs

Strategies and checks have their own trees, in `workers.kinds`; the limiter and the gateway have theirs.
"""


class WorkerError(Exception):
    """Base of what this package raises; the message says what to do next."""


class KeyUnusable(WorkerError):
    """The key is missing or unusable. The message never holds it."""


class WorkerMisplaced(WorkerError):
    """A worker needs the URLs of the database and the broker, and was given none."""
