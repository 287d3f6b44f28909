"""The named SQL of `db/sql`. A statement starts at a line `-- name: NAME` and runs to the next one."""

import re
from importlib.resources import files


def _load() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(files("db").joinpath("sql").iterdir(), key=lambda entry: entry.name):
        if not path.name.endswith(".sql"):
            continue
        parts = re.split(r"^-- name: (\w+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for name, statement in zip(parts[1::2], parts[2::2], strict=True):
            assert name not in found, f"two statements are named {name}"
            # The server need not read our comments again with every call.
            found[name] = re.sub(r"^\s*--.*\n", "", statement, flags=re.MULTILINE).strip()
    return found


SQL = _load()
