"""Fenced code blocks in what a model wrote."""

import pytest

from workers.fences import fenced_blocks, unfenced


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no fence", []),
        ("```sql\nSELECT 1;\n```", [("sql", "SELECT 1;")]),
        ("a\n```JSON title=x\n{}\n```\nb\n~~~\nc\n~~~", [("json", "{}"), ("", "c")]),
        ("````\n```\ninner\n```\n````", [("", "```\ninner\n```")]),
        ("```python\nnever closed", [("python", "never closed")]),
        ("``` inline``` text", []),
        ("```\n```", [("", "")]),
    ],
)
def test_blocks(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(block.language, block.text) for block in fenced_blocks(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" 42 ", "42"),
        ("```\n42\n```\n", "42"),
        ("```json\n{}\n```", "{}"),
        ("see\n```\n42\n```", "see\n```\n42\n```"),
        ("```\n1\n```\n```\n2\n```", "```\n1\n```\n```\n2\n```"),
        ("```\n```", ""),
        ("```", "```"),
        ("", ""),
    ],
)
def test_unfenced(text: str, expected: str) -> None:
    assert unfenced(text) == expected
