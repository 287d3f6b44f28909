"""Numbers in sentences."""

import pytest

from analysis.wording import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks"), (1200, "1,200 tasks")]
)
def test_one_is_one(number: int, said: str) -> None:
    assert counted(number, "task") == said
