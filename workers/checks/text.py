"""Checks that look at the answer as text."""

from typing import ClassVar

from pydantic import Field

from workers.checks.base import Check, CheckContext, Checked


class NonEmpty(Check):
    """The answer holds more than blanks."""

    kind: ClassVar[str] = "non_empty"

    def run(self, answer: str, context: CheckContext) -> Checked:
        passed = bool(answer.strip())
        return Checked(passed=passed, message="the answer holds text" if passed else "the answer is empty")


class Contains(Check):
    """The answer contains a text."""

    kind: ClassVar[str] = "contains"

    text: str = Field(min_length=1)
    ignore_case: bool = False

    def run(self, answer: str, context: CheckContext) -> Checked:
        passed = _contains(answer, self.text, self.ignore_case)
        return Checked(passed=passed, message=f"{self.text!r} is {'' if passed else 'not '}in the answer")


class NotContains(Check):
    """The answer says something, and a text is not in it. An empty answer does not pass."""

    kind: ClassVar[str] = "not_contains"

    text: str = Field(min_length=1)
    ignore_case: bool = False

    def run(self, answer: str, context: CheckContext) -> Checked:
        if not answer.strip():
            return Checked(passed=False, message="the answer is empty")
        found = _contains(answer, self.text, self.ignore_case)
        return Checked(passed=not found, message=f"{self.text!r} is {'' if found else 'not '}in the answer")


class Exact(Check):
    """The answer is this text, up to blanks around it and at the end of lines, and kinds of line end."""

    kind: ClassVar[str] = "exact"

    text: str = Field(min_length=1)
    ignore_case: bool = False

    def run(self, answer: str, context: CheckContext) -> Checked:
        expected, seen = _trimmed(self.text), _trimmed(answer)
        if self.ignore_case:
            expected, seen = expected.casefold(), seen.casefold()
        passed = expected == seen
        message = "the answer is the expected text" if passed else _first_difference(expected, seen)
        return Checked(passed=passed, message=message, seen=answer)


def _contains(answer: str, text: str, ignore_case: bool) -> bool:
    return text.casefold() in answer.casefold() if ignore_case else text in answer


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _first_difference(expected: str, seen: str) -> str:
    ours, theirs = expected.split("\n"), seen.split("\n")
    for number, (line, given) in enumerate(zip(ours, theirs, strict=False), start=1):
        if line != given:
            return f"line {number}: expected {line[:200]!r}, seen {given[:200]!r}"
    return f"expected {len(ours)} lines, seen {len(theirs)}"
