"""The check that reads one number from the answer."""

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from workers.checks.base import CheckContext, Checked
from workers.checks.comparing import Tolerant

_NUMBER = re.compile(
    r"(?<![\w.])[-+\u2212]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?"
)


class Number(Tolerant):
    """A number in the answer has the expected value. Units, currency and `%` around it are not looked at."""

    kind: ClassVar[str] = "number"

    value: float = Field(allow_inf_nan=False)
    which: Literal["first", "last"] = "last"
    label: str = ""
    """Read only the rest of the line after this text, in any case; of several such lines the last."""

    def run(self, answer: str, context: CheckContext) -> Checked:
        numbers = numbers_in(_labelled(answer, self.label) if self.label else answer)
        where = f" after {self.label!r}" if self.label else ""
        if not numbers:
            return Checked(passed=False, message=f"expected {self.value:g}, seen no number{where}")
        seen = numbers[0 if self.which == "first" else -1]
        message = f"expected {self.value:.12g}, seen {seen:.12g} as the {self.which} number{where}"
        return Checked(passed=self.close(self.value, seen), message=message, seen=seen)


def numbers_in(text: str) -> Sequence[float]:
    """All numbers of a text, with thousands commas (`1,024.5`), signs and exponents."""
    return [float(found.replace(",", "").replace("\u2212", "-")) for found in _NUMBER.findall(text)]


def _labelled(answer: str, label: str) -> str:
    """The rest of the last line that has the label with a number after it."""
    for line in reversed(answer.splitlines()):
        _, found, rest = line.casefold().partition(label.casefold())
        if found and _NUMBER.search(rest):
            return rest
    return ""
