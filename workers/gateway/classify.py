"""The class of every error, and what the engine does about it.

| what came back | class | next |
|---|---|---|
| 429 rate limit | `rate_limit` | throttled |
| 408 · 409, 5xx, 529 | `timeout` · `server_error` | retry |
| a prompt longer than the model or the limit allows | `context_length` | job fails |
| 400, 413, 422 and other 4xx · refused by a content filter | `bad_request` · `content_filter` | job fails |
| 401, a wrong key · 402 · 403 | `unauthorized` · `payment_required` · `forbidden` | run pauses |
| 404, 405, 410, an unknown model · a redirect | `not_found` · `redirected` | run pauses |
| a quota or spending limit used up, at any other 4xx | `quota_exhausted` | run pauses |
| 200 with HTML, a text, malformed JSON, an error, no choices; a stream cut short | `bad_response` | retry |
| 200, tokens spent on nothing | `empty_output` | trial fails |
| 200, not the asked-for JSON · cut by `max_tokens` | `invalid_output` · `truncated` | one retry |
| refused, DNS, TLS, no connection in time (never sent) | `connection` | retry |
| no answer in time · lost after sending (status `unknown`) | `timeout` · `unknown_outcome` | retry |
| stopped from outside (`unknown` once anything may have been sent) | `cancelled` | retry |

An error's code decides before its text, its text before its status. `x-should-retry` turns retries into
failures and the reverse; it does not unpause what dooms the run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from workers.gateway.body import Said
from workers.gateway.outcome import Disposition


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The class of an error and what follows from it."""

    error: str
    disposition: Disposition


def _verdict(error: str, disposition: Disposition) -> Verdict:
    return Verdict(error=error, disposition=disposition)


BAD_RESPONSE = _verdict("bad_response", Disposition.RETRY)
EMPTY_OUTPUT = _verdict("empty_output", Disposition.TRIAL_FAILS)
INVALID_OUTPUT = _verdict("invalid_output", Disposition.RETRY_ONCE)
TRUNCATED = _verdict("truncated", Disposition.RETRY_ONCE)
CONNECTION = _verdict("connection", Disposition.RETRY)
TIMEOUT = _verdict("timeout", Disposition.RETRY)
UNKNOWN_OUTCOME = _verdict("unknown_outcome", Disposition.RETRY)
CANCELLED = _verdict("cancelled", Disposition.RETRY)
RATE_LIMIT = _verdict("rate_limit", Disposition.THROTTLED)
SERVER_ERROR = _verdict("server_error", Disposition.RETRY)
CONTEXT_LENGTH = _verdict("context_length", Disposition.FAIL)
CONTENT_FILTER = _verdict("content_filter", Disposition.FAIL)
BAD_REQUEST = _verdict("bad_request", Disposition.FAIL)
UNAUTHORIZED = _verdict("unauthorized", Disposition.PAUSE_RUN)
PAYMENT_REQUIRED = _verdict("payment_required", Disposition.PAUSE_RUN)
FORBIDDEN = _verdict("forbidden", Disposition.PAUSE_RUN)
NOT_FOUND = _verdict("not_found", Disposition.PAUSE_RUN)
REDIRECTED = _verdict("redirected", Disposition.PAUSE_RUN)
QUOTA_EXHAUSTED = _verdict("quota_exhausted", Disposition.PAUSE_RUN)

STATUSES: Mapping[int, Verdict] = {
    401: UNAUTHORIZED,
    402: PAYMENT_REQUIRED,
    403: FORBIDDEN,
    404: NOT_FOUND,
    405: NOT_FOUND,
    408: TIMEOUT,
    409: SERVER_ERROR,
    410: NOT_FOUND,
    429: RATE_LIMIT,
}
"""Other 3xx, 4xx and 5xx go by their family."""

CODES: Mapping[str, Verdict] = {
    "insufficient_quota": QUOTA_EXHAUSTED,
    "billing_hard_limit_reached": QUOTA_EXHAUSTED,
    "billing_not_active": QUOTA_EXHAUSTED,
    "insufficient_user_quota": QUOTA_EXHAUSTED,  # one-api and its descendants
    "pre_consume_token_quota_failed": QUOTA_EXHAUSTED,
    "exceeded_current_quota_error": QUOTA_EXHAUSTED,  # Moonshot
    "arrearage": QUOTA_EXHAUSTED,  # Alibaba Cloud
    "insufficient_balance": QUOTA_EXHAUSTED,
    "insufficient_credits": QUOTA_EXHAUSTED,
    "spending_limit_reached": QUOTA_EXHAUSTED,
    "rate_limit_exceeded": RATE_LIMIT,
    "context_length_exceeded": CONTEXT_LENGTH,
    "string_above_max_length": CONTEXT_LENGTH,
    "model_not_found": NOT_FOUND,
    "invalid_api_key": UNAUTHORIZED,
    "account_deactivated": UNAUTHORIZED,
    "content_policy_violation": CONTENT_FILTER,
    "content_filter": CONTENT_FILTER,
    "data_inspection_failed": CONTENT_FILTER,  # Alibaba Cloud
}
"""By `error.code`, else `error.type`, of a 4xx or of an error that comes with 200."""

_RATE = re.compile(
    r"per[ -](minute|second|hour|day|min\b)|\b[rt]p[mds]\b|(try|retry)( again)? (in|after)"
    r"|too many requests|每分钟|每秒|稍后",
    re.IGNORECASE,
)
"""A limit that time alone lifts. 'Quota' is a word for those too."""

_TEXTS: tuple[tuple[re.Pattern[str], Verdict], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), verdict)
    for pattern, verdict in (
        (
            r"exceeded your current quota|insufficient (account )?(balance|quota|credits?|funds)"
            r"|credit balance is too low|(out of|no|used all available) credits|spend(ing)? limit"
            r"|billing hard limit|specified api usage limits|key limit exceeded"
            r"|余额不足|额度不足|额度已用尽|欠费",
            QUOTA_EXHAUSTED,
        ),
        (
            r"maximum context length|context (window|length)|prompt is too long|input is too long"
            r"|exceeds? the (model's )?max(imum)? (input|token|context)|上下文长度|超出最大长度",
            CONTEXT_LENGTH,
        ),
        (r"api key not valid|invalid api key|incorrect api key|无效的令牌|无效的api", UNAUTHORIZED),
        (r"model[^.]{0,80}(not exist|does not exist|not found|is not a valid model)|模型不存在", NOT_FOUND),
        (r"content (management )?policy|flagged|moderation|敏感|内容安全", CONTENT_FILTER),
    )
)
"""By the error's text, where a 4xx has no code that says it."""

_TEXT_STATUSES: Mapping[str, frozenset[int]] = {
    "quota_exhausted": frozenset({400, 403, 429}),
    "context_length": frozenset({400, 413, 422}),
    "unauthorized": frozenset({400, 403}),
    "not_found": frozenset({400, 403, 422}),
    "content_filter": frozenset({400, 403, 422}),
}
"""The statuses at which such a text is believed."""

_TOO_LARGE = re.compile(r"limit[: ]+([\d,]+)\b.{0,60}?requested[: ]+([\d,]+)", re.IGNORECASE | re.DOTALL)


def verdict_on(status: int, said: Said, should_retry: str | None) -> Verdict:
    """The verdict on an answer whose status is not 2xx."""
    says_more = 400 <= status < 500 and status != 402
    verdict = _by_what_it_says(status, said) if says_more else None
    return _obey(verdict or _by_status(status), should_retry)


def verdict_on_error_in_200(said: Said) -> Verdict:
    """An error inside a 200 is a bad response, unless its code names what retrying does not mend."""
    verdict = CODES.get(said.code) or CODES.get(said.kind)
    if verdict is None and said.code.isascii() and said.code.isdecimal():
        verdict = STATUSES.get(int(said.code))
    return BAD_RESPONSE if verdict is None or verdict.disposition is Disposition.RETRY else verdict


def _by_status(status: int) -> Verdict:
    if status >= 500:
        return SERVER_ERROR
    if 300 <= status < 400:
        return REDIRECTED
    return STATUSES.get(status, BAD_REQUEST)


def _by_what_it_says(status: int, said: Said) -> Verdict | None:
    verdict = CODES.get(said.code) or CODES.get(said.kind) or _by_text(status, said.text)
    if status == 429 and _larger_than_the_limit(said.text):
        return CONTEXT_LENGTH
    return verdict


def _by_text(status: int, text: str) -> Verdict | None:
    for pattern, verdict in _TEXTS:
        if status in _TEXT_STATUSES[verdict.error] and pattern.search(text):
            lifted_by_time = verdict is QUOTA_EXHAUSTED and status == 429 and _RATE.search(text)
            return None if lifted_by_time else verdict
    return None


def _larger_than_the_limit(text: str) -> bool:
    """'Limit 30000, Requested 45000' can never pass; 'Limit 250000, Requested 546' can, a little later."""
    found = _TOO_LARGE.search(text)
    if found is None:
        return False
    limit, requested = (float(number.replace(",", "") or 0) for number in found.groups())
    return requested > limit


def _obey(verdict: Verdict, should_retry: str | None) -> Verdict:
    if should_retry == "false" and verdict.disposition in (Disposition.RETRY, Disposition.THROTTLED):
        return replace(verdict, disposition=Disposition.FAIL)
    if should_retry == "true" and verdict.disposition is Disposition.FAIL:
        return replace(verdict, disposition=Disposition.RETRY)
    return verdict
