"""The check that looks for a pattern."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from workers import sandbox
from workers.checks.base import Check, CheckContext, Checked


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return pattern


class Regex(Check):
    """The answer matches a regular expression of Python's `re`; flags stand in it, as in `(?im)^rows: 12$`.

    It runs in the sandbox: on a hostile answer an innocent pattern can take longer than the universe lasts.
    """

    kind: ClassVar[str] = "regex"
    quick: ClassVar[bool] = False

    pattern: Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
    full: bool = False
    """The whole answer, stripped, has to match; otherwise any part of it."""

    def run(self, answer: str, context: CheckContext) -> Checked:
        try:
            found = sandbox.run("regex", pattern=self.pattern, text=answer.strip(), full=self.full)
        except sandbox.Refused as refused:
            return Checked(passed=False, message=f"pattern {self.pattern!r}: {refused}")
        message = f"pattern {self.pattern!r} {'matches' if found is not None else 'does not match'}"
        return Checked(passed=found is not None, message=message, seen=found)
