"""What the sandbox says when it cannot do what it was asked."""


class Refused(Exception):
    """What was asked cannot be carried through, or is not allowed; the message is fit for a result."""
