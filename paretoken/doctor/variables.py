"""The key, and what else in the environment could send a program to another gateway."""

import re
from collections.abc import Iterator, Mapping

from paretoken.doctor.target import KEY, Target
from paretoken.findings import Finding, failure, ok, shown_key, shown_url, warning
from scheduler.experiment import BASE_URL
from workers.errors import KeyUnusable
from workers.keys import Key, read_key

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_LEFTOVER = "environment"

# Variable -> whose programs read it.
_URLS = {
    "OPENAI_BASE_URL": "OpenAI's SDK",
    "OPENAI_API_BASE": "older programs of OpenAI's SDK",
    "ANTHROPIC_BASE_URL": "Claude Code",
}
_KEYS = {
    "OPENAI_API_KEY": "OpenAI's SDK",
    "ANTHROPIC_API_KEY": "Claude Code",
    "ANTHROPIC_AUTH_TOKEN": "Claude Code",
    KEY: "other experiments",
}


def check_key(target: Target) -> tuple[list[Finding], Key | None]:
    """The key where it can be used. Raises nothing."""
    try:
        key = read_key(target.key_variable)
    except KeyUnusable as error:
        # Its messages are two sentences: what is wrong, and what to do.
        seen, _, do = str(error).partition(". ")
        return [failure("key", seen, do)], None
    return [ok("key", f"{target.key_variable} is set ({shown_key(key.secret)})")], key


def check_leftovers(target: Target, environment: Mapping[str, str]) -> list[Finding]:
    """Variables that say something else than the experiment. None of them stops a run, so all are warnings."""
    found = [
        *_other_address(target, environment),
        *_other_urls(target, environment),
        *_other_keys(target, environment),
    ]
    return found or [ok(_LEFTOVER, "no OPENAI_*, ANTHROPIC_* or TAOTOKEN_* variable disagrees")]


def _other_address(target: Target, environment: Mapping[str, str]) -> Iterator[Finding]:
    given, written = environment.get(BASE_URL), target.file_base_url
    if given and written and not same_gateway(given, written):
        seen = f"{BASE_URL} ({shown_url(given)}) overrides the experiment's base_url ({shown_url(written)})"
        yield warning(_LEFTOVER, seen, f"unset {BASE_URL}, unless it is meant.")


def _other_urls(target: Target, environment: Mapping[str, str]) -> Iterator[Finding]:
    for name, reader in _URLS.items():
        given = environment.get(name)
        if not given:
            continue
        if target.base_url and not same_gateway(given, target.base_url):
            seen = f"{name} ({shown_url(given)}) is another gateway than {shown_url(target.base_url)}"
            yield warning(
                _LEFTOVER, seen, f"Paretoken ignores it, {reader} does not: unset {name}, or correct it."
            )
        elif name == "ANTHROPIC_BASE_URL" and given.rstrip("/").endswith("/v1"):
            seen = f"{name} ends in /v1, to which Claude Code adds /v1/messages"
            yield warning(_LEFTOVER, seen, f"Take /v1 off {name}.")


def _other_keys(target: Target, environment: Mapping[str, str]) -> Iterator[Finding]:
    own = environment.get(target.key_variable, "").strip()
    for name, reader in _KEYS.items():
        given = environment.get(name, "").strip()
        if own and given and name != target.key_variable and given != own:
            seen = f"{name} ({shown_key(given)}) is another key than {target.key_variable} ({shown_key(own)})"
            yield warning(
                _LEFTOVER, seen, f"Paretoken ignores it, {reader} may not: unset {name} if it is a leftover."
            )
    both = [environment.get(name, "") for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")]
    if all(both) and both[0] != both[1]:
        seen = "ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN are both set, and differ: Claude Code sends both"
        yield warning(_LEFTOVER, seen, "unset ANTHROPIC_API_KEY.")


def same_gateway(one: str, other: str) -> bool:
    """Whether two base URLs differ in spelling, in `/v1`, `/anthropic` or a query alone."""
    return _place(one) == _place(other)


def _place(url: str) -> str:
    return re.sub(r"(/anthropic)?(/v1)?/*$", "", url.strip().partition("?")[0]).lower()


def secrets_in(environment: Mapping[str, str], *names: str) -> list[str]:
    """Values that must not be shown: those of the named variables and of all that are called like a key."""
    return [value for name, value in environment.items() if value and (name in names or _SECRET.search(name))]
