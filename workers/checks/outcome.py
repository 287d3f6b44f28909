"""The checks of a task, run on an answer: what is stored with the trial."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workers.checks.base import Check, CheckContext, Checked

MAX_ANSWER_CHARS = 1_000_000
SHOWN_CHARS = 2000


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What one check found, fit to be stored as JSON: cut to a limit, without NUL and lone surrogates."""

    kind: str
    passed: bool
    message: str
    seen: Any = None


def run_checks(
    checks: Sequence[Check], answer: str, context: CheckContext
) -> tuple[bool | None, list[CheckResult]]:
    """Whether all checks pass (`None`: there are none, so nobody knows), and what each of them found."""
    results = [_result(check, answer, context) for check in checks]
    return (all(result.passed for result in results) if results else None), results


def _result(check: Check, answer: str, context: CheckContext) -> CheckResult:
    if len(answer) > MAX_ANSWER_CHARS:
        message = f"the answer has {len(answer):,} characters, checks read at most {MAX_ANSWER_CHARS:,}"
        checked = Checked(passed=False, message=message)
    else:
        checked = check.run(answer, context)
    return CheckResult(
        kind=check.kind,
        passed=checked.passed,
        message=_storable(_cut(checked.message)),
        seen=_storable(_cut(checked.seen)),
    )


def _cut(value: Any) -> Any:
    """The value, or the beginning of its text when that is too long."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "nested too deeply to be shown"
    return value if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text):,} characters)"


def _storable(value: Any) -> Any:
    """The same value with what Postgres cannot store in its texts replaced."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list | tuple) else value
