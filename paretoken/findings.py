"""What a check saw, and how it is shown: one line each, ok, warning or failure, with what to do.

No finding holds a key: `shown_key` and `shown_url` make what may be seen of one, and `without_secrets` takes out
whatever a server may have echoed.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

import typer

from analysis.safetext import terminal_text
from analysis.wording import counted

Level = Literal["ok", "warning", "failure"]

_SHORTEST_SHOWN_KEY = 12
_SHORTEST_SECRET = 6
# An address that lacks its scheme; whatever else stands in its place may be a key.
_HOST_ALONE = re.compile(
    r"(https?:/*)?([\w-]{1,24}\.)+[a-z]{2,12}(:\d+)?(/[\w.-]{0,24})*|localhost(:\d+)?(/[\w.-]{0,24})*"
)
_INDENT = " " * 9


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of a checklist."""

    level: Level
    what: str
    """What was looked at."""
    seen: str
    do: str = ""
    """What to do now; empty where all is well."""


def ok(what: str, seen: str) -> Finding:
    return Finding(level="ok", what=what, seen=seen)


def warning(what: str, seen: str, do: str) -> Finding:
    return Finding(level="warning", what=what, seen=seen, do=do)


def failure(what: str, seen: str, do: str) -> Finding:
    return Finding(level="failure", what=what, seen=seen, do=do)


def shown_key(secret: str) -> str:
    """The last four characters of a key; nothing of a short one, of which they would be much."""
    return f"…{secret[-4:]}" if len(secret) >= _SHORTEST_SHOWN_KEY else "too short to show any of it"


def shown_url(url: str) -> str:
    """Scheme, host and path: user, password and the values of a query stay out, since they may be secrets."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(unreadable)"
    if not host:
        bare = url.partition("?")[0].rpartition("@")[2]
        return bare if _HOST_ALONE.fullmatch(bare) else "(what is written there)"
    return f"{parts.scheme}://{host}{parts.path}" + ("?…" if parts.query else "")


def without_secrets(findings: Iterable[Finding], secrets: Iterable[str]) -> list[Finding]:
    """The same findings with `[key]` wherever one of these values stood."""
    bare = {
        part for secret in secrets for part in (secret, secret.strip().removeprefix("Bearer ").strip("'\""))
    }
    known = sorted((part for part in bare if len(part) >= _SHORTEST_SECRET), key=len, reverse=True)

    def clean(text: str) -> str:
        for secret in known:
            text = text.replace(secret, "[key]")
        return text

    return [replace(found, seen=clean(found.seen), do=clean(found.do)) for found in findings]


def report(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print them; exit code 1 where one is a failure."""
    counts = Counter(found.level for found in findings)
    typer.echo(_json(findings, counts) if as_json else _text(findings, counts))
    if counts["failure"]:
        raise typer.Exit(1)


def _text(findings: Sequence[Finding], counts: Counter[Level]) -> str:
    width = max((len(found.what) for found in findings), default=0)
    lines = []
    for found in findings:
        lines.append(f"{found.level:<7}  {found.what:<{width}}  {_line(found.seen)}")
        if found.do:
            lines.append(f"{_INDENT}{'':<{width}}  -> {_line(found.do)}")
    bad = (counted(counts["failure"], "failure"), counted(counts["warning"], "warning"))
    return "\n".join([*lines, f"{', '.join(bad)}, {counts['ok']} ok."])


def _line(text: str) -> str:
    return terminal_text(" ".join(text.split()))


def _json(findings: Sequence[Finding], counts: Counter[Level]) -> str:
    checks = [asdict(found) for found in findings]
    return json.dumps({"ok": not counts["failure"], "checks": checks}, indent=2)
