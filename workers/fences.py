"""Fenced code blocks (CommonMark) in what a model wrote, found in one pass over the lines."""

from collections.abc import Sequence
from dataclasses import dataclass

_LEAST = 3


@dataclass(frozen=True, kw_only=True)
class Fenced:
    """One fenced block."""

    language: str
    """The first word after the opening fence, lower case; empty when there is none."""
    text: str


def fenced_blocks(text: str) -> Sequence[Fenced]:
    """All fenced blocks, in order. A block that is never closed runs to the end of the text."""
    blocks: list[Fenced] = []
    opening, language, body = "", "", list[str]()
    for line in text.splitlines():
        fence = _fence(line)
        if not opening:
            opening, language, body = fence, line.strip().lstrip("`~").strip(), []
        elif fence.startswith(opening) and line.strip() == fence:
            blocks.append(_block(language, body))
            opening = ""
        else:
            body.append(line)
    return [*blocks, _block(language, body)] if opening else blocks


def unfenced(text: str) -> str:
    """The inside of a text that is one fenced block and nothing else; any other text as it is, stripped."""
    stripped = text.strip()
    lines = stripped.splitlines()
    if len(lines) < 2 or not _fence(lines[0]) or not _fence(lines[-1]):
        return stripped
    blocks = fenced_blocks(stripped)
    inside = "\n".join(lines[1:-1])
    return inside.strip() if len(blocks) == 1 and blocks[0].text == inside else stripped


def _fence(line: str) -> str:
    """The run of backticks or tildes that opens or closes a block on this line, or nothing."""
    stripped = line.strip()
    for mark in ("`", "~"):
        length = len(stripped) - len(stripped.lstrip(mark))
        if length >= _LEAST and mark not in stripped[length:]:
            return mark * length
    return ""


def _block(language: str, body: Sequence[str]) -> Fenced:
    first = language.split(maxsplit=1)[:1]
    return Fenced(language=first[0].lower() if first else "", text="\n".join(body))
