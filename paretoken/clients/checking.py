"""The files of agent clients that exist on this machine."""

from collections.abc import Mapping
from pathlib import Path

from paretoken.clients.claude_checks import check_claude_code
from paretoken.clients.codex_checks import check_codex
from paretoken.doctor.variables import secrets_in
from paretoken.findings import Finding, ok

_SHORTEST_SECRET = 8


def check_clients(
    *,
    home: Path,
    project: Path,
    base_url: str | None,
    environment: Mapping[str, str],
    key_variable: str | None = None,
) -> list[Finding]:
    """Findings about the user's files below `home` and the project's below `project`.

    `base_url` is the gateway that they should name; None: whatever they name is taken.
    """
    known = secrets_in(environment, *([key_variable] if key_variable else []))
    secrets = frozenset(secret for secret in known if len(secret) >= _SHORTEST_SECRET)
    findings = [
        *check_claude_code(
            home=home, project=project, base_url=base_url, environment=environment, secrets=secrets
        ),
        *check_codex(home=home, project=project, base_url=base_url, environment=environment, secrets=secrets),
    ]
    return findings or [ok("clients", f"no files of Claude Code or Codex below {home} and {project}")]
