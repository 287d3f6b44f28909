"""What follows from an outcome: the call's row, the job's next state, and how long it waits."""

import random
from dataclasses import dataclass

from analysis.prices import Price, cost_usd
from db.settlement import LaterTurn, Settlement
from db.work import Claimed
from workers.commands.outcome import Ran
from workers.gateway import Disposition, Outcome


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often and how slowly a job is tried again."""

    max_tries: int
    backoff_s: float
    backoff_max_s: float
    max_throttled_s: float
    max_lost_leases: int

    def wait_s(self, failures: int) -> float:
        """Exponential back-off with full jitter: uniform between 0 and the step."""
        step = min(self.backoff_max_s, self.backoff_s * 2 ** min(failures, 60))
        return random.uniform(0, step)


def settle(
    job: Claimed, attempt: int, outcome: Outcome, *, price: Price | None, retries: Retries
) -> Settlement:
    """The settlement of one call of a job that was claimed."""
    next_state, delay_s, failures = _next(job, outcome, retries)
    ran = outcome if isinstance(outcome, Ran) else None
    if ran is not None and not ran.priced:
        price = None
    retried = next_state == "pending" and outcome.disposition is not Disposition.PAUSE_RUN
    return Settlement(
        trial=job.trial,
        judging=job.judging,
        job=job.job,
        dispatch_no=job.dispatch_no,
        attempt=attempt,
        status=outcome.status,
        next_state=next_state,
        delay_s=delay_s,
        failures=failures,
        throttled=outcome.disposition is Disposition.THROTTLED,
        retry_reason=_reason(outcome) if retried else None,
        once=outcome.disposition is Disposition.RETRY_ONCE,
        error=outcome.error,
        message=outcome.message,
        content=outcome.content,
        tool_calls=outcome.tool_calls,
        usage=outcome.usage,
        raw_usage=outcome.raw_usage,
        cost_usd=cost_usd(outcome.usage, price),
        http_status=outcome.http_status,
        response_id=outcome.response_id,
        finish_reason=outcome.finish_reason,
        latency_ms=outcome.latency_ms,
        first_byte_ms=outcome.first_byte_ms,
        later_turns=[
            LaterTurn(
                usage=turn.usage,
                raw_usage=turn.raw,
                cost_usd=cost_usd(turn.usage, price),
                content=turn.content,
            )
            for turn in (ran.later_turns if ran else ())
        ],
        files=ran.files if ran else {},
    )


def _next(job: Claimed, outcome: Outcome, retries: Retries) -> tuple[str, float, int]:
    """(next state, seconds to wait, tries used up)."""
    asked_s = outcome.retry_after_s or 0.0
    paid = may_be_paid(outcome)
    throttling_goes_on = job.throttled_s <= retries.max_throttled_s and (
        not paid or job.failures + 1 < retries.max_tries
    )
    match outcome.disposition:
        case Disposition.USED:
            return "ok", 0.0, 0
        case Disposition.PAUSE_RUN:
            return "pending", 0.0, int(paid)
        case Disposition.RETRY if job.failures + 1 < retries.max_tries:
            return "pending", max(asked_s, retries.wait_s(job.failures)), 1
        case Disposition.RETRY_ONCE:  # unless the trial has had its repetition: `Settlement.once`
            return "pending", 0.0, 1
        case Disposition.THROTTLED if throttling_goes_on:
            return "pending", max(asked_s, retries.wait_s(1)), int(paid)
        case _:
            return "failed", 0.0, 1


def may_be_paid(outcome: Outcome) -> bool:
    """Whether a repetition may be paid twice. Of one HTTP request a refusal costs nothing; an agent's run has many."""
    return outcome.status == "unknown" or bool(outcome.usage.total_tokens)


def proves_lane(outcome: Outcome) -> bool:
    """Whether the gateway has accepted key and model: it answered, or refused the one prompt only."""
    return outcome.status == "ok" or outcome.http_status in (200, 400, 413, 422)


def _reason(outcome: Outcome) -> str:
    if outcome.status == "unknown" and outcome.error != "timeout":
        return "unknown_outcome"
    return outcome.error or "unknown_outcome"
