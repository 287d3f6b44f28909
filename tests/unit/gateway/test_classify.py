"""What each answer of a gateway means: status, body and headers as real ones send them."""

from typing import Any

import pytest

from workers.gateway.body import said_by
from workers.gateway.classify import verdict_on, verdict_on_error_in_200

TOO_LARGE = "Request too large for m in organization org-x on tokens per min (TPM): Limit {}, Requested {}."

ANSWERS: dict[str, tuple[int, Any, str, str]] = {
    # status, body, class, next
    "429 plain": (429, "slow down", "rate_limit", "throttled"),
    "429 by code": (
        429,
        {"error": {"message": "Rate limit reached", "type": "tokens", "code": "rate_limit_exceeded"}},
        "rate_limit",
        "throttled",
    ),
    "429 too large for the moment: 546 < 250000": (
        429,
        {"error": {"message": TOO_LARGE.format(250000, 546), "code": "rate_limit_exceeded"}},
        "rate_limit",
        "throttled",
    ),
    "429 too large for ever: 45,000 > 30,000": (
        429,
        {"error": {"message": TOO_LARGE.format("30,000", "45,000"), "code": "rate_limit_exceeded"}},
        "context_length",
        "fail",
    ),
    "429 quota by code": (
        429,
        {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
        "quota_exhausted",
        "pause_run",
    ),
    "429 quota by type": (
        429,
        {"error": {"message": "…", "type": "exceeded_current_quota_error"}},
        "quota_exhausted",
        "pause_run",
    ),
    "429 quota by text": (
        429,
        {"error": {"message": "Insufficient account balance, please recharge"}},
        "quota_exhausted",
        "pause_run",
    ),
    "429 quota in Chinese": (
        429,
        {"error": {"message": "您的账户余额不足，请充值"}},
        "quota_exhausted",
        "pause_run",
    ),
    "429 'quota' of a minute is a rate limit": (
        429,
        [
            {
                "error": {
                    "code": 429,
                    "status": "RESOURCE_EXHAUSTED",
                    "message": "You exceeded your current quota. Quota: 15 requests per minute. Please retry in 36s.",
                }
            }
        ],
        "rate_limit",
        "throttled",
    ),
    "429 in Chinese, per minute": (
        429,
        {"error": {"message": "额度不足：每分钟请求数超限，请稍后再试"}},
        "rate_limit",
        "throttled",
    ),
    "400 spending limit": (
        400,
        {"error": {"message": "Billing hard limit has been reached", "code": "billing_hard_limit_reached"}},
        "quota_exhausted",
        "pause_run",
    ),
    "400 credit balance": (
        400,
        {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access"}},
        "quota_exhausted",
        "pause_run",
    ),
    "403 user quota": (
        403,
        {"error": {"message": "用户额度不足", "code": "insufficient_user_quota"}},
        "quota_exhausted",
        "pause_run",
    ),
    "402 speaks for itself": (
        402,
        {"error": {"message": "Insufficient credits", "code": "insufficient_credits"}},
        "payment_required",
        "pause_run",
    ),
    "401": (401, {"error": {"message": "Incorrect API key provided"}}, "unauthorized", "pause_run"),
    "400 wrong key": (
        400,
        {"error": {"message": "API key not valid. Please pass a valid API key."}},
        "unauthorized",
        "pause_run",
    ),
    "403": (403, "<html><title>Forbidden</title></html>", "forbidden", "pause_run"),
    "404 by model": (
        404,
        {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}},
        "not_found",
        "pause_run",
    ),
    "404 page": (404, "404 page not found", "not_found", "pause_run"),
    "405": (405, "", "not_found", "pause_run"),
    "400 model": (400, {"error": {"message": "Model Not Exist"}}, "not_found", "pause_run"),
    "301": (301, "", "redirected", "pause_run"),
    "400 context by code": (
        400,
        {"error": {"message": "…", "code": "context_length_exceeded"}},
        "context_length",
        "fail",
    ),
    "400 context by text": (
        400,
        {"error": {"message": "This model's maximum context length is 8192 tokens."}},
        "context_length",
        "fail",
    ),
    "413 context": (413, {"error": {"message": "prompt is too long"}}, "context_length", "fail"),
    "400": (400, {"error": {"message": "temperature must be below 2"}}, "bad_request", "fail"),
    "413": (413, "", "bad_request", "fail"),
    "422": (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "bad_request", "fail"),
    "418": (418, "", "bad_request", "fail"),
    "400 content filter": (
        400,
        {"error": {"message": "…", "code": "content_policy_violation"}},
        "content_filter",
        "fail",
    ),
    "403 moderation is one prompt's fault": (
        403,
        {"error": {"message": "Your input was flagged"}},
        "content_filter",
        "fail",
    ),
    "408": (408, "", "timeout", "retry"),
    "409": (409, "", "server_error", "retry"),
    "500": (500, "Internal Server Error", "server_error", "retry"),
    "503": (503, {"error": {"message": "overloaded"}}, "server_error", "retry"),
    "529": (529, {"error": {"type": "overloaded_error"}}, "server_error", "retry"),
    "a 5xx is retried whatever it says": (
        503,
        {"error": {"message": "no channel", "code": "model_not_found"}},
        "server_error",
        "retry",
    ),
}


@pytest.mark.parametrize(("status", "body", "error", "disposition"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answer(status: int, body: Any, error: str, disposition: str) -> None:
    verdict = verdict_on(status, said_by(body), None)
    assert (verdict.error, verdict.disposition) == (error, disposition)


@pytest.mark.parametrize(
    ("status", "should_retry", "disposition"),
    [
        (500, "false", "fail"),
        (500, "true", "retry"),
        (500, "perhaps", "retry"),
        (429, "false", "fail"),
        (429, "true", "throttled"),
        (400, "true", "retry"),
        (400, "false", "fail"),
        (401, "true", "pause_run"),
        (401, "false", "pause_run"),
    ],
)
def test_x_should_retry(status: int, should_retry: str, disposition: str) -> None:
    assert verdict_on(status, said_by(""), should_retry).disposition == disposition


@pytest.mark.parametrize(
    ("body", "error", "disposition"),
    [
        ({"error": {"message": "upstream error"}}, "bad_response", "retry"),
        ({"error": {"message": "upstream error", "code": 502}}, "bad_response", "retry"),
        ({"error": "overloaded"}, "bad_response", "retry"),
        ({"error": {"message": "余额不足"}}, "bad_response", "retry"),
        ({"error": {"code": "insufficient_quota"}}, "quota_exhausted", "pause_run"),
        ({"error": {"code": 402, "message": "Insufficient credits"}}, "payment_required", "pause_run"),
        ({"error": {"code": "429"}}, "rate_limit", "throttled"),
        ({"error": {"code": "context_length_exceeded"}}, "context_length", "fail"),
        ({"error": {"code": "²"}}, "bad_response", "retry"),
    ],
)
def test_error_that_comes_with_200(body: Any, error: str, disposition: str) -> None:
    verdict = verdict_on_error_in_200(said_by(body))
    assert (verdict.error, verdict.disposition) == (error, disposition)


@pytest.mark.parametrize(
    ("body", "code", "kind", "text"),
    [
        ({"error": {"message": "no", "code": "C", "type": "T"}}, "c", "t", "no"),
        ({"error": "no", "code": 7}, "7", "", "no"),
        ({"message": "no", "code": None}, "", "", "no"),
        ({"msg": "no"}, "", "", "no"),
        ({"detail": [{"msg": "no"}]}, "", "", '[{"msg": "no"}]'),
        ([{"error": {"message": "no"}}], "", "", "no"),
        ({"error": {"message": {"deep": "no"}}}, "", "", '{"deep": "no"}'),
        ({"error": ["no"]}, "", "", "['no']"),
        ("no", "", "", "no"),
        (None, "", "", ""),
        ([], "", "", ""),
        ({}, "", "", ""),
        (17, "", "", ""),
    ],
)
def test_said_by(body: Any, code: str, kind: str, text: str) -> None:
    said = said_by(body)
    assert (said.code, said.kind, said.text) == (code, kind, text)
