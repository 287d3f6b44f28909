"""The exceptions of this package.

SchedulerError
├── ExperimentInvalid   the experiment or task file, with file and field or line
├── RunChanged          the run exists and was planned from another experiment
└── BrokerUnreachable   nothing answers at the broker URL
"""


class SchedulerError(Exception):
    """Base of what this package raises; the message says what to do next."""


class ExperimentInvalid(SchedulerError):
    """An experiment or task file that cannot be run, said in one line."""


class RunChanged(SchedulerError):
    """The run was planned from another experiment; the message shows the difference."""


class BrokerUnreachable(SchedulerError):
    """Nothing answers at the broker URL."""
