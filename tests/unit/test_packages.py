"""What is installed under our names is ours, small enough to read, and quick to start."""

import importlib
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("paretoken", "scheduler", "workers", "db", "analysis")
MOST_LINES = 345
# Each costs a noticeable part of a second, which `--help` must not pay.
HEAVY = {
    "celery",
    "polars",
    "openai",
    "sqlalchemy",
    "alembic",
    "psycopg",
    "psycopg2",
    "redis",
    "aiohttp",
    "numpy",
    "scipy",
    "rich",
}


@pytest.mark.parametrize("name", PACKAGES)
def test_top_level_names_are_this_distributions(name: str) -> None:
    """Other distributions have packages called `scheduler` and `workers`."""
    module = importlib.import_module(name)
    assert Path(str(module.__file__)).parent == ROOT / name
    # An editable install maps names through a finder, and may list none, or one several times.
    assert set(packages_distributions().get(name, ["paretoken"])) == {"paretoken"}


@pytest.mark.parametrize("name", PACKAGES)
def test_modules_can_be_read_in_one_sitting(name: str) -> None:
    lines = {path: len(path.read_text().splitlines()) for path in (ROOT / name).rglob("*.py")}
    assert {
        path: count for path, count in lines.items() if count > MOST_LINES and "versions" not in path.parts
    } == {}


def test_every_package_is_listed_for_the_wheel() -> None:
    listed = (ROOT / "pyproject.toml").read_text().split("[tool.setuptools]")[1].split("]\n")[0]
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    missing = [folder for folder in folders if f'"{".".join(folder.relative_to(ROOT).parts)}"' not in listed]
    assert missing == []


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, paretoken.cli; sys.argv = ['paretoken', '--help']\ntry: paretoken.cli.main()\n"
    code += "except SystemExit: print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Commands:" in done.stdout
    assert HEAVY & set(done.stderr.split()) == set()
