"""What the gateway answers: models, one tiny call, a stream, and what agent clients need of it."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from analysis.usage import Usage
from paretoken.doctor.address import alternatives, with_v1, without_v1
from paretoken.doctor.requests import TINY_TOKENS, Endpoint, Problem, Requests, RequestsUsedUp
from paretoken.doctor.target import Target
from paretoken.findings import Finding, failure, ok, warning
from workers.gateway.body import one_line
from workers.gateway.outcome import Outcome

MESSAGES = "/v1/messages"
"""What Claude Code adds to its base URL."""
RESPONSES = "/responses"
"""What Codex adds."""

_SHOWN_CHARS = 80
_NEAREST = 3

ADVICE: Mapping[str, str] = {
    "config": "Correct the base URL, the key or the proxy first.",
    "connection": "Check host and port of the base URL, the network, and HTTPS_PROXY / NO_PROXY.",
    "certificate": "Nobody this machine trusts vouches for that server. Check the host; for a gateway of your own set "
    "SSL_CERT_FILE to the certificate of its authority.",
    "timeout": "The gateway or the model is too slow or overloaded: try again or try another model; a proxy may be in "
    "the way. A run waits longer: timeout_s in [gateway].",
    "unknown_outcome": "The connection broke: try again; where it stays so, a proxy or the gateway is at fault.",
    "unauthorized": "The gateway does not know this key: copy it again from the gateway this base URL belongs to.",
    "payment_required": "The account has nothing left: pay in at the gateway.",
    "quota_exhausted": "The quota, credit or spending limit of this key is used up: raise it at the gateway.",
    "forbidden": "The key is known and may not do this: give it access to the model at the gateway (group, region, "
    "allowed addresses), or use another.",
    "rate_limit": "Too many requests with this key: wait and try again; for runs set requests_per_minute in [limits].",
    "redirected": "Redirects are not followed: put the address that it redirects to into the base URL.",
    "server_error": "The gateway has a fault of its own: try again later, or another model.",
    "bad_request": "The gateway refuses the request: read what it says; some models take no temperature.",
    "bad_response": "What answers there is no gateway's interface: check the base URL.",
}


async def check_gateway(target: Target, *, base_url: str, key: str, timeout_s: float) -> list[Finding]:
    """All findings about a gateway; at most ten requests, each with `timeout_s`."""
    requests = Requests(key=key, timeout_s=timeout_s)
    findings: list[Finding] = []
    try:
        await _check(target, base_url, requests, findings)
    except RequestsUsedUp:
        findings.append(
            warning("requests", f"{requests.made} were made, as many as may be", "Mend the above first.")
        )
    return findings


async def _check(target: Target, base_url: str, requests: Requests, findings: list[Finding]) -> None:
    """Append to `findings` as far as it comes."""
    if not target.models:
        findings += await _list_alone(base_url, requests)
        return
    listed = await requests.models(base_url)
    model = target.models[0]
    if isinstance(listed, Problem) and listed.error in ("config", "connection"):
        findings.append(_no_call(listed))
        return
    answer = await requests.complete(base_url, model=model, temperature=target.temperature)
    if isinstance(answer, Problem) and _wrong_place(answer, listed):
        findings.append(_no_call(answer))
        found = await _elsewhere(target, base_url, requests)
        findings.append(_place(found[0] if found else None, base_url))
        if found is None:
            return
        base_url, answer = found
        listed = await requests.models(base_url)
    findings += _models(target.models, listed, answered=not isinstance(answer, Problem))
    if isinstance(answer, Problem):
        findings.append(_no_call(answer))
        return
    findings += _call(answer)
    findings.append(
        _stream(
            await requests.complete(base_url, model=model, temperature=target.temperature, stream=True),
            wanted=target.stream,
        )
    )
    async for found_client in _clients(base_url, model, requests):
        findings.append(found_client)


def _wrong_place(answer: Problem, listed: list[str] | Problem) -> bool:
    """Whether the path of the base URL may be wrong: no route, or a web page; not where models are spoken of."""
    missing = answer.error == "not_found" and "model" not in answer.detail.lower()
    return (missing or answer.is_page) and isinstance(listed, Problem)


async def _list_alone(base_url: str, requests: Requests) -> list[Finding]:
    """All that can be asked without a model's name."""
    listed = await requests.models(base_url)
    if isinstance(listed, list):
        do = "Name a model for a real request: --model, or an experiment."
        return [warning("models", f"the gateway lists {_some(listed)}", do)]
    findings = [_no_call(listed)]
    if listed.error == "not_found" or listed.is_page:
        for other in alternatives(base_url):
            if isinstance(await requests.models(other), list):
                return [*findings, _place(other, base_url)]
    return findings


async def _elsewhere(target: Target, base_url: str, requests: Requests) -> tuple[str, Outcome] | None:
    for other in alternatives(base_url):
        answer = await requests.complete(other, model=target.models[0], temperature=target.temperature)
        if isinstance(answer, Outcome):
            return other, answer
    return None


def _place(found: str | None, base_url: str) -> Finding:
    if found is None:
        seen = f"nothing answers below {base_url}, nor below {', '.join(alternatives(base_url))}"
        return failure(
            "base URL", seen, "Copy the base URL from the gateway's own page, with or without /v1 as it says."
        )
    return failure(
        "base URL", f"the gateway answers below {found}, not below {base_url}", f"Set base_url to {found}"
    )


def _no_call(problem: Problem) -> Finding:
    error = (
        "certificate" if "certificate" in problem.detail and problem.error == "connection" else problem.error
    )
    if error == "not_found":
        do = "Check the model's name, and the base URL with and without /v1."
    else:
        do = ADVICE.get(error, "Read what the gateway says.")
    return failure("call", problem.detail, do)


def _models(wanted: Sequence[str], listed: list[str] | Problem, *, answered: bool) -> list[Finding]:
    if isinstance(listed, Problem):
        # The same fault would be said twice where the call has failed as well.
        return (
            [warning("models", f"no list: {listed.detail}", "No harm if the call works.")] if answered else []
        )
    missing = [model for model in wanted if model not in listed]
    if not missing:
        return [ok("models", f"{', '.join(wanted)}: in the gateway's list of {len(listed)}")]
    return [_missing(model, listed, answers=answered and model == wanted[0]) for model in missing]


def _missing(model: str, listed: Sequence[str], *, answers: bool) -> Finding:
    near = _near(model, listed)
    do = f"Nearest names: {', '.join(near)}" if near else f"The list holds {_some(listed)}"
    seen = f"{model!r} is not in the gateway's list of {len(listed)}"
    return warning("models", f"{seen}, though it answers", do) if answers else failure("models", seen, do)


def _near(model: str, listed: Sequence[str]) -> list[str]:
    """The names most like it; neither case nor a vendor's prefix counts."""
    plain = {name.rpartition("/")[2].lower(): name for name in reversed(listed)}
    matches = get_close_matches(model.rpartition("/")[2].lower(), plain, n=_NEAREST, cutoff=0.5)
    return [one_line(plain[match], _SHOWN_CHARS) for match in matches]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, _SHOWN_CHARS) for name in names[:_NEAREST])
    return f"{len(names)} models" + (f": {shown}{', …' if len(names) > _NEAREST else ''}" if names else "")


def _call(outcome: Outcome) -> list[Finding]:
    usage = outcome.usage
    if outcome.content:
        text = " ".join(outcome.content.split())
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
        found = [ok("call", f"answered in {outcome.latency_ms} ms: {shown!r}")]
    else:
        seen = f"answered in {outcome.latency_ms} ms, and all {TINY_TOKENS} tokens went into reasoning"
        found = [warning("call", seen, "Give [model] max_tokens enough room for reasoning and answer.")]
    if usage.total_tokens is None:
        do = "Without it tokens and cost stay unknown: ask the gateway for it, or use another."
        return [*found, failure("usage", "the gateway reports no usage", do)]
    return [*found, ok("usage", _tokens(usage))]


def _tokens(usage: Usage) -> str:
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out, {usage.total_tokens} in all"


def _stream(answer: Outcome | Problem, *, wanted: bool) -> Finding:
    found = failure if wanted else warning
    do = "Set stream = false in [gateway]." if wanted else "Leave stream = false in [gateway]."
    if isinstance(answer, Problem):
        return found("stream", f"no streamed answer: {answer.detail}", do)
    if answer.usage.total_tokens is None:
        return found("stream", "a streamed answer comes without usage: its tokens would stay unknown", do)
    return ok("stream", f"with usage: {_tokens(answer.usage)}")


async def _clients(base_url: str, model: str, requests: Requests) -> AsyncIterator[Finding]:
    """Which agent clients the gateway can serve besides this program, and where."""
    said = [{"role": "user", "content": "Reply with the single word: ready"}]
    root, plain = without_v1(base_url), base_url.rstrip("/")
    body: dict[str, Any] = {"model": model, "max_tokens": TINY_TOKENS, "messages": said}
    if "claude" not in model.lower():
        # As Claude Code 2.1 does with models that it does not know; strict gateways refuse it.
        body["messages"] = [*said, {"role": "system", "content": "Be brief."}]
    headers = {"anthropic-version": "2023-06-01"}
    tried = await _first(requests, [f"{root}{MESSAGES}", f"{root}/anthropic{MESSAGES}"], body, headers)
    yield _client("Claude Code", tried, setting="ANTHROPIC_BASE_URL", route=MESSAGES)
    body = {"model": model, "max_output_tokens": TINY_TOKENS, "input": said, "store": False}
    places = dict.fromkeys([f"{plain}{RESPONSES}", f"{with_v1(base_url)}{RESPONSES}"])
    yield _client("Codex", await _first(requests, places, body, {}), setting="base_url", route=RESPONSES)


async def _first(
    requests: Requests, urls: Iterable[str], body: Mapping[str, Any], headers: Mapping[str, str]
) -> list[Endpoint]:
    """What is at these places, up to the first where something takes such requests."""
    tried: list[Endpoint] = []
    for url in urls:
        tried.append(await requests.endpoint(url, body, headers))
        if tried[-1].there:
            break
    return tried


def _client(name: str, tried: Sequence[Endpoint], *, setting: str, route: str) -> Finding:
    last = tried[-1]
    if last.serves:
        return ok(name, f"{last.url} answers ({last.said}); {setting} = {last.url.removesuffix(route)}")
    if last.there:
        seen = f"{last.url} is there and refuses a request like {name}'s ({last.said})"
        return warning(name, seen, "Read what it says; another model may do.")
    seen = f"neither is served: {', '.join(f'{one.url} ({one.said})' for one in tried)}"
    if len(tried) == 1:
        seen = f"{last.url} is not served ({last.said})"
    do = f"{name} cannot use this gateway. Strategies that do not run {name} are not concerned."
    return warning(name, seen, do)
