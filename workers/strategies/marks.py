"""Lines such as `Answer: 42` with which a model is asked to mark the part of its text that counts."""

import re
from functools import cache


def after_mark(content: str, mark: str) -> str | None:
    """What follows the last line that starts with the mark and a colon; `None` when there is no such line.

    Case does not matter, and models may dress the line up: `**Answer:** 42`, `### Final answer: 42`.
    """
    found = list(_line(mark).finditer(content))
    if not found:
        return None
    text = content[found[-1].end() :].strip()
    # The closing half of `**Answer: 42**`.
    return text.removesuffix("**").rstrip() if text.count("**") == 1 else text


def marked_word(content: str, mark: str) -> str:
    """The first word after the mark, lower case, without punctuation; empty when there is none."""
    found = re.search(r"[\w.]+", after_mark(content, mark) or "")
    return found[0].strip(".").casefold() if found else ""


def marked_number(content: str, mark: str) -> float | None:
    """The number right after the mark, as in `Score: 7.5` or `Score: 7/10`."""
    found = re.match(r"[^\w-]*(\d{1,9}(?:\.\d{1,9})?)", after_mark(content, mark) or "")
    return float(found[1]) if found else None


@cache
def _line(mark: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t>#*_`]*(?:final )?{re.escape(mark)}[*_`]*:[*_`]*", re.IGNORECASE | re.MULTILINE)
