"""The exceptions of this package; the tree is in the package's docstring."""

from openai import OpenAIError

from workers.gateway.outcome import Outcome


class GatewayError(Exception):
    """Base of what leaves this package; its text is fit to be shown and holds no key."""


class GatewayConfigError(GatewayError):
    """A base URL or key that can never work."""


class GatewayRequestError(GatewayError):
    """A request outside a run failed. `outcome` says how, as for a call."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class CallFailed(OpenAIError):
    """No HTTP answer that could be read. An `OpenAIError`, so that the SDK passes it on as it is."""


class NothingSent(CallFailed):
    """Certain: not one byte of the request went out."""


class AnswerLost(CallFailed):
    """The request may have been served, but its answer did not arrive whole."""


class AnswerUnreadable(CallFailed):
    """An answer came, and it is not HTTP, not decodable or far too big."""
