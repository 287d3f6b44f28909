"""The base URL as it is written, and where else the gateway may be."""

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from paretoken.findings import Finding, failure, ok, shown_url, warning

WHAT = "base URL"

_TAIL = re.compile(r"/(chat/completions|completions|responses|v1/messages|messages|models)/*$")
# A name, also one of another script; or an IPv6 address, whose brackets are gone.
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]+(%[\w.-]+)?", re.IGNORECASE)
_NOT_IN_A_URL = re.compile(r"[\x00-\x1f\x7f]")
_DOUBLE = re.compile(r"(/v1){2,}/*$")


def check_base_url(base_url: str | None, *, variable: str) -> tuple[list[Finding], str | None]:
    """The findings, and the URL that further checks go on with: mended where it is plain what was meant.

    `variable` names the environment variable that may set it.
    """
    if base_url is None:
        do = f"Name an experiment file, or set {variable}, for example {variable}=https://taotoken.net/api"
        return [failure(WHAT, "none is named", do)], None
    parts = _split(base_url)
    if parts is None or "<" in base_url:
        seen = f"{shown_url(base_url)} is no address"
        return [
            failure(WHAT, seen, "It starts with https:// and names a host. Copy it from the gateway.")
        ], None
    wrong, mended = _mend(base_url, parts)
    if wrong:
        do = f"Set it to {mended} (further lines are about this address)."
        return [failure(WHAT, f"{shown_url(base_url)} {' and '.join(wrong)}", do)], mended
    findings = [ok(WHAT, f"{mended}, used exactly as given: {mended.rstrip('/')}/chat/completions")]
    if parts.scheme == "http" and not _is_local(parts.hostname or ""):
        do = "Use https:// where the gateway has it."
        findings = [warning(WHAT, f"{mended}: the key travels unencrypted", do)]
    return findings, mended


def _split(base_url: str) -> SplitResult | None:
    try:
        parts = urlsplit(base_url.strip().strip("'\""))
        parts.port  # noqa: B018 - looked at, because only that checks it
    except ValueError:
        return None
    fits = parts.scheme in ("http", "https") and _HOST.fullmatch(parts.hostname or "")
    return parts if fits and not _NOT_IN_A_URL.search(base_url.strip()) else None


def _mend(base_url: str, parts: SplitResult) -> tuple[list[str], str]:
    """What is wrong, and the URL without it."""
    wrong = []
    if base_url != base_url.strip().strip("'\""):
        wrong.append("has blanks or quotes around it")
    if parts.username is not None or parts.password is not None:
        wrong.append("holds a user name or password, which belongs in the key's variable")
    if parts.query or parts.fragment:
        wrong.append("goes on after '?' or '#' (often a link with utm_ marks)")
    path = parts.path
    if found := _TAIL.search(path):
        wrong.append(f"ends in {found[0]}, which is added by itself")
        path = path[: found.start()]
    if _DOUBLE.search(path):
        wrong.append("names /v1 twice")
        path = _DOUBLE.sub("/v1", path)
    netloc = parts.netloc.rpartition("@")[2]
    return wrong, f"{parts.scheme}://{netloc}{path}"


def alternatives(base_url: str) -> list[str]:
    """Where gateways of this kind are, too: with and without `/v1`, with and without `/api`; at most three."""
    parts = urlsplit(base_url)
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    stem = path.removesuffix("/v1")
    paths = [stem if path.endswith("/v1") else f"{path}/v1"]
    if stem.endswith("/api"):
        paths += [stem.removesuffix("/api"), stem.removesuffix("/api") + "/v1"]
    else:
        paths += [f"{stem}/api", f"{stem}/api/v1"]
    return [root + other for other in paths if other != path][:3]


def without_v1(base_url: str) -> str:
    """As Claude Code wants it, which adds `/v1/messages` itself."""
    return base_url.rstrip("/").removesuffix("/v1")


def with_v1(base_url: str) -> str:
    """As Codex mostly wants it, which adds `/responses`."""
    return without_v1(base_url) + "/v1"


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host
