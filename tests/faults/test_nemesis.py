"""The short form of the nemesis; `make soak` is the long one."""

from pathlib import Path

from tests.faults.nemesis import fight


def test_a_run_survives_everything_at_once(tmp_path: Path) -> None:
    battle = fight(1, jobs=300, strikes=9, home=tmp_path / "home", folder=tmp_path)
    assert battle.faults == 9
    assert battle.found.jobs >= 300
