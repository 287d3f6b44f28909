"""The named SQL of `db/sql`. A statement starts at a line `-- name: NAME` and runs to the next one."""

import re
from pathlib import Path


def _load() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(Path(__file__).with_name("sql").glob("*.sql")):
        parts = re.split(r"^-- name: (\w+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for name, statement in zip(parts[1::2], parts[2::2], strict=True):
            assert name not in found, f"two statements are named {name}"
            # The server need not read our comments again with every call.
            found[name] = re.sub(r"^\s*--.*\n", "", statement, flags=re.MULTILINE).strip()
    return found


SQL = _load()
