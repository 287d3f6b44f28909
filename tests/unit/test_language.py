"""The tracked files speak of the product alone."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# In parts, so that this file passes its own test.
FORBIDDEN = [
    r"pypi\." + "org",
    "pythonhosted" + r"\.org",
    r"registry\." + r"npmjs",
    r"(?<!\.\./)shared/(?!data)" + r"[A-Z]",
    "generated " + r"(with|by) (an? )?(AI|LLM|model)\b",
    "anthropic" + r"\.com",
    r"\bas an " + "ai\\b",
    "co-authored" + "-by",
    r"requirements? " + r"(row|\d)",
    r"\bissue " + r"#?\d",
    r"\bsession " + r"\d",
    "/work/" + "main",
]


def tracked() -> list[Path]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_tracked_file_says(pattern: str) -> None:
    found = re.compile(pattern, re.IGNORECASE)
    said = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked()
        if (match := found.search(path.read_text(errors="replace")))
    ]
    assert said == []
