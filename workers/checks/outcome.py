"""The checks of a task, run on an answer: what is stored with the trial."""

import json
import math
from collections.abc import Sequence
from typing import Any

from workers.checks.base import Check, CheckContext, Checked

MAX_ANSWER_CHARS = 1_000_000
SHOWN_CHARS = 2000


def run_checks(
    checks: Sequence[Check], answer: str, context: CheckContext
) -> tuple[bool | None, list[dict[str, Any]]]:
    """Whether all checks pass, and what each of them found: `kind`, `passed`, `message`, `seen`.

    Without checks nobody knows: `None`. The findings are JSON values that Postgres can store: cut to a
    limit, without NUL, lone surrogates and infinite numbers.
    """
    found = [(check.kind, _checked(check, answer, context)) for check in checks]
    success = all(checked.passed for _, checked in found) if found else None
    return success, [
        {
            "kind": kind,
            "passed": checked.passed,
            "message": _storable(_cut(checked.message)),
            "seen": _storable(_cut(checked.seen)),
        }
        for kind, checked in found
    ]


def _checked(check: Check, answer: str, context: CheckContext) -> Checked:
    if len(answer) <= MAX_ANSWER_CHARS:
        return check.run(answer, context)
    message = f"the answer has {len(answer):,} characters, checks read at most {MAX_ANSWER_CHARS:,}"
    return Checked(passed=False, message=message)


def _cut(value: Any) -> Any:
    """The value, or the beginning of its text when that is too long."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "nested too deeply to be shown"
    return value if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text):,} characters)"


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value
