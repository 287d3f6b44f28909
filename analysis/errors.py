"""What `analysis` raises.

AnalysisError                 one line for the user: what is wrong, where, and what to do next
├── FrameError                a table lacks a column, holds a wrong value or repeats a key
├── OptionError               an option's value is not allowed, or two options contradict each other
└── NotIdentifiedError        the data cannot answer the question (islands, no decisive comparison, …)
"""


class AnalysisError(ValueError):
    """Base of all; its text is fit to be shown as it is."""


class FrameError(AnalysisError):
    """A table cannot be used as it is."""


class OptionError(AnalysisError):
    """An option cannot be used as it is."""


class NotIdentifiedError(AnalysisError):
    """An estimate would be a number without a meaning, so none is given."""
