"""Embedded servers that several commands share: the last one to leave stops them, unless a person started them."""

import os
import signal
from pathlib import Path

import pytest

from paretoken import servers
from paretoken.services import started_services
from paretoken.settings import BROKER_URL, DATABASE_URL, HOME


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME, str(tmp_path))
    monkeypatch.delenv(DATABASE_URL, raising=False)
    monkeypatch.delenv(BROKER_URL, raising=False)
    return tmp_path


def running(home: Path) -> bool:
    state = servers.status(home)
    return state.postgres.running and state.valkey.running


def test_the_last_user_stops_them(home: Path) -> None:
    first, second = started_services(), started_services()
    with first as one:
        entered = second.__enter__()
        assert entered == one
    # Whoever started them has left; the other one still works with them.
    assert running(home)
    second.__exit__(None, None, None)
    assert not running(home)


def test_what_a_person_started_stays(home: Path) -> None:
    servers.start(home)
    try:
        with started_services():
            pass
        assert running(home)
    finally:
        servers.stop(home)


def test_a_person_who_starts_them_meanwhile_keeps_them(home: Path) -> None:
    try:
        with started_services():
            servers.start(home)
        assert running(home)
    finally:
        servers.stop(home)


def test_what_a_person_started_stays_also_after_a_crash(home: Path) -> None:
    servers.start(home)
    try:
        pid = servers.status(home).valkey.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with started_services():
            pass
        assert running(home)
    finally:
        servers.stop(home)
