"""Where a strategy's program is on this machine."""

import shutil
from pathlib import Path


def program_at(program: str) -> Path | None:
    """Its path, one that holds in another folder too; None where it cannot be run."""
    found = shutil.which(program)
    return None if found is None else Path(found).absolute()


def what_is_missing(program: str, *, where: str) -> tuple[str, str] | None:
    """What is wrong with it `where` this is, and what to do; None where it can be run."""
    if program_at(program):
        return None
    # The name alone is looked for on the PATH, whatever is in the present folder.
    if "/" in program and Path(program).is_file():
        return f"{program} is there on {where}, but cannot be executed", f"Allow it: chmod +x {program}"
    return (
        f"{program} is not installed on {where}, or not on its PATH",
        "Install it on every worker, or name its path in the strategy's command.",
    )
