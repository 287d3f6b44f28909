"""Strategies of the kind `command` in an experiment: the files of their HOME, and what they need to be allowed."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduler.errors import ExperimentInvalid
from scheduler.sections import Experiment
from workers.strategies import Strategy
from workers.strategies.command import Command

_MOST_FILES = 100
_MOST_BYTES = 1_000_000


def with_home(given: Mapping[str, Any], folder: Path, *, key_variable: str) -> Mapping[str, Any]:
    """The parameters of a `command` strategy, with the files themselves where `home` names their folder.

    Raises:
        ExperimentInvalid: the folder cannot be read, is no folder of settings, or holds the key.
    """
    name = given.get("home")
    if not isinstance(name, str):
        return given
    return {**given, "home": _read(folder / name, os.environ.get(key_variable, ""), key_variable)}


def _read(home: Path, key: str, key_variable: str) -> Mapping[str, str]:
    if not home.is_dir():
        raise ExperimentInvalid(f"home = {str(home)!r} is no folder. Name one with the program's settings.")
    paths = sorted(path for path in home.rglob("*") if path.is_file())
    if len(paths) > _MOST_FILES or sum(path.stat().st_size for path in paths) > _MOST_BYTES:
        raise ExperimentInvalid(
            f"home = {str(home)!r} holds more than {_MOST_FILES} files or {_MOST_BYTES:,} bytes; settings are smaller."
        )
    found = {}
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise ExperimentInvalid(f"{path}: cannot be read as UTF-8 text. Take it out of home.") from None
        if key and key in text:
            raise ExperimentInvalid(
                f"{path}: holds the key itself. Take it out: the program finds it in {key_variable}."
            )
        found[path.relative_to(home).as_posix()] = text
    return found


def check_command(strategy: Strategy, settings: Experiment) -> None:
    """Raises `ExperimentInvalid` where a `command` strategy cannot run, or nobody has allowed it to."""
    if not isinstance(strategy, Command):
        return
    if not settings.allow_commands:
        raise ExperimentInvalid(
            "kind 'command' runs a program of yours on every worker: say allow_commands = true at the top of the file."
        )
    if settings.gateway.simulate and strategy.client != "generic" and strategy.base_url is None:
        raise ExperimentInvalid(
            f"client = {strategy.client!r} needs a gateway that serves its interface; the simulated one has "
            "/chat/completions alone."
        )


def command_warnings(strategies: Sequence[Strategy], settings: Experiment) -> list[str]:
    if settings.limits.concurrency is None and any(isinstance(strategy, Command) for strategy in strategies):
        return [
            "Without limits.concurrency a worker may start as many programs at once as its --concurrency says."
        ]
    return []
