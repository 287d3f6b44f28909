"""The installed libraries against those that this version was made for."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from paretoken.findings import Finding, failure, ok


def check_packages() -> list[Finding]:
    """One line, or one for each library that is missing, too old or too new."""
    needed = [Requirement(line) for line in requires("paretoken") or ()]
    wrong = [found for requirement in needed if (found := _wrong(requirement))]
    return wrong or [ok("packages", f"paretoken {version('paretoken')}, openai {version('openai')}")]


def _wrong(requirement: Requirement) -> Finding | None:
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return None
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return failure("packages", f"{requirement.name} is not installed", _install(requirement))
    if requirement.specifier.contains(installed, prereleases=True):
        return None
    seen = f"{requirement.name} {installed} is installed; this version needs {requirement.specifier}"
    return failure("packages", seen, _install(requirement))


def _install(requirement: Requirement) -> str:
    return f'pip install "{requirement.name}{requirement.specifier}", in the environment that runs paretoken.'


def usable(findings: Sequence[Finding]) -> bool:
    """Whether the libraries are fit to make requests with."""
    return all(found.level == "ok" for found in findings)
