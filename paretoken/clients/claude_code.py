"""Claude Code's `settings.json`.

The file's `env` block wins over the shell's variables, and a project's file over the user's. It is taken literally,
`${NAME}` is not filled in, so the key comes through `apiKeyHelper`, a command whose output is the key. The two empty
variables keep a key that was left in the shell from being sent instead.
"""

import json
from collections.abc import Mapping
from typing import Any

from paretoken.doctor.address import without_v1

USER_FILE = ".claude/settings.json"
PROJECT_FILES = (".claude/settings.json", ".claude/settings.local.json")
"""In a project; the later one wins."""

KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
VARIABLES = (
    "ANTHROPIC_BASE_URL",
    *KEYS,
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_BETAS",
    "ANTHROPIC_LOG",
)
"""Those that decide where requests go and what for; others with this prefix may exist."""


def settings(*, base_url: str, key_variable: str, model: str, small_model: str) -> Mapping[str, Any]:
    """The object of the file."""
    return {
        "apiKeyHelper": f"printenv {key_variable}",
        "env": {
            "ANTHROPIC_BASE_URL": without_v1(base_url),
            "ANTHROPIC_AUTH_TOKEN": "",
            "ANTHROPIC_API_KEY": "",
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_SMALL_FAST_MODEL": small_model,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": small_model,
        },
    }


def settings_text(*, base_url: str, key_variable: str, model: str, small_model: str) -> str:
    """The file."""
    found = settings(base_url=base_url, key_variable=key_variable, model=model, small_model=small_model)
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def endpoint(base_url: str) -> str:
    """What the gateway must serve."""
    return f"{without_v1(base_url)}/v1/messages"
