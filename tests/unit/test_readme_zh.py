"""README.zh-CN.md says the same as README.md: the same commands and files, the same numbers, in the same places."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGLISH = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """(kind, lines) of each code block. Comments are translated, and so are the words of a drawing."""
    return [
        (
            kind,
            [] if kind == "text" else [re.sub(r"\s+# .*", "", line).rstrip() for line in body.splitlines()],
        )
        for kind, body in BLOCK.findall(text)
    ]


def cells(text: str) -> Iterator[list[str]]:
    """What is not words in each row of each table: numbers, and names in backquotes."""
    for line in BLOCK.sub("", text).splitlines():
        if line.startswith("|"):
            yield re.findall(r"`[^`]+`|[+-]?\d[\d,.]*\d|\d", line.split("|", 2)[2] + line.split("|")[1])


def headings(text: str) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", BLOCK.sub("", text), re.MULTILINE)]


def test_the_code_blocks_are_the_same() -> None:
    assert blocks(CHINESE) == blocks(ENGLISH)


def test_the_tables_hold_the_same_numbers_and_names() -> None:
    assert list(cells(CHINESE)) == list(cells(ENGLISH))


def test_the_sections_are_the_same() -> None:
    assert headings(CHINESE) == headings(ENGLISH)


def test_it_names_the_same_commands_and_pages() -> None:
    def named(text: str) -> set[str]:
        text = BLOCK.sub("", text)
        return {
            *re.findall(r"`(?:paretoken|docker|make) [^`]+`", text),
            *re.findall(r"\]\((docs/[^)]+)\)", text),
        }

    assert named(CHINESE) == named(ENGLISH)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^):#\s]+)\)", CHINESE))
def test_a_link_leads_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_each_leads_to_the_other() -> None:
    assert "](README.zh-CN.md)" in ENGLISH
    assert "](README.md)" in CHINESE
