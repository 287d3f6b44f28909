"""CC Switch: provider records, and links that it imports a provider from.

A record holds what CC Switch writes into a client's own file when the provider is chosen. A link holds the key itself,
so it is only ever printed, and only when that is asked for.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

APPS = ("claude", "codex")


def record_text(app: str, *, name: str, settings_config: Mapping[str, Any]) -> str:
    """The record of a provider as a file."""
    record = {"id": f"paretoken-{app}", "name": name, "settingsConfig": settings_config, "category": "custom"}
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def codex_settings(config: str) -> Mapping[str, Any]:
    """What a record holds for Codex: the text of its file. The key comes from the variable that the text names."""
    return {"auth": {}, "config": config}


def import_link(app: str, *, name: str, endpoint: str, secret: str, model: str) -> str:
    """The link, with the key in it."""
    fields = {
        "resource": "provider",
        "app": app,
        "name": name,
        "endpoint": endpoint,
        "apiKey": secret,
        "model": model,
    }
    return f"ccswitch://v1/import?{urlencode(fields)}"
