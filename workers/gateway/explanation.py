"""One line for a person about an error: what came back, and what to do where it dooms all."""

import re
from collections.abc import Mapping

from workers.gateway.body import one_line

_LONGEST = 500
_LONGEST_DETAIL = 240

WHAT_TO_DO: Mapping[str, str] = {
    "unauthorized": "The gateway does not accept the key: check the environment variable that holds it "
    "(no 'Bearer ', blanks or quotes), see `paretoken doctor`, then resume the run.",
    "payment_required": "The account must be paid up: do so at the gateway, then resume the run.",
    "forbidden": "The key may not do this: give it access to the model at the gateway or use another, "
    "then resume the run.",
    "not_found": "Check the model's name and the base URL (with or without /v1), see `paretoken doctor`, "
    "then resume the run.",
    "redirected": "Redirects are not followed: put the right address into the base URL, then resume the run.",
    "quota_exhausted": "The quota, credit or spending limit is used up: raise it at the gateway, "
    "then resume the run.",
    "context_length": "Shorten the prompt or lower max_tokens, or use a model with a larger context.",
    "truncated": "Raise max_tokens if this happens often.",
    "empty_output": "Raise max_tokens if the model spends it on reasoning.",
}


class Explainer:
    """Writes messages that never hold the key, nor the masked form in which gateways echo it."""

    def __init__(self, api_key: str) -> None:
        masked = rf"|{re.escape(api_key[:6])}[\w*.…-]*" if len(api_key) >= 12 else ""
        self._key = re.compile(re.escape(api_key) + masked)

    def explain(self, error: str, detail: str) -> str:
        """At most 500 printable characters: the detail, then the advice."""
        detail = one_line(self._key.sub("[key]", detail[:4000]), _LONGEST_DETAIL).rstrip(". ")
        advice = WHAT_TO_DO.get(error)
        return one_line(f"{detail}. {advice}" if advice else detail, _LONGEST)
