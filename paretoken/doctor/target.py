"""Which gateway, key and models the checks are about."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.wording import counted
from paretoken.errors import InputError
from paretoken.findings import Finding, failure, ok, warning
from scheduler.errors import ExperimentInvalid
from scheduler.experiment import BASE_URL, LoadedExperiment, load
from workers.commands import CLIENTS
from workers.commands.programs import what_is_missing
from workers.strategies.command import Command

KEY = "TAOTOKEN_API_KEY"


@dataclass(frozen=True, kw_only=True)
class Target:
    """What an experiment file and the environment say together."""

    base_url: str | None = None
    """As given, which may be wrong; None where nothing names one."""
    key_variable: str = KEY
    models: Sequence[str] = ()
    """Every model that is called; the first is tried."""
    temperature: float | None = None
    stream: bool = False
    simulated: bool = False
    file_base_url: str | None = None
    """The experiment's own, whatever the environment says."""


def read_target(
    experiment: Path | None, *, model: str | None, environment: Mapping[str, str]
) -> tuple[Target, list[Finding]]:
    """The target, also of an experiment that cannot be run: what can be read of it is checked all the same."""
    if experiment is None:
        target = Target(base_url=environment.get(BASE_URL) or None, models=[model] if model else [])
        return target, []
    table, loaded, findings = _table(experiment), None, []
    try:
        loaded = load(experiment)
        tasks, strategies = len(loaded.tasks), len(loaded.strategies)
        kinds = "1 strategy" if strategies == 1 else f"{strategies:,} strategies"
        findings = [
            ok("experiment", f"{experiment}: {counted(tasks, 'task')}, {kinds}"),
            *(warning("experiment", said, "Consider it before the run.") for said in loaded.warnings),
            *_programs(loaded),
        ]
    except ExperimentInvalid as error:
        findings = [
            failure("experiment", str(error), "Correct it first: docs/experiment.md says what it may hold.")
        ]
    return _target(table, loaded, model=model, environment=environment), findings


def _programs(loaded: LoadedExperiment) -> Iterator[Finding]:
    """Those of strategies that start one; this machine may be none of the workers', so it is a warning."""
    for planned in loaded.strategies:
        strategy = planned.strategy
        if isinstance(strategy, Command):
            program = (strategy.command or CLIENTS[strategy.client].program)[0]
            if missing := what_is_missing(program, where="this machine"):
                yield warning("experiment", f"strategy {planned.name!r}: {missing[0]}", missing[1])


def _target(
    table: Mapping[str, Any],
    loaded: LoadedExperiment | None,
    *,
    model: str | None,
    environment: Mapping[str, str],
) -> Target:
    gateway, section = _inner(table, "gateway"), _inner(table, "model")
    written = _text(gateway.get("base_url"))
    named = _text(section.get("name"))
    others = loaded.models if loaded else []
    temperature = section.get("temperature")
    return Target(
        base_url=environment.get(BASE_URL) or written,
        key_variable=_text(gateway.get("api_key_env")) or KEY,
        models=list(dict.fromkeys(name for name in (model, named, *others) if name)),
        temperature=temperature if isinstance(temperature, int | float) else None,
        stream=gateway.get("stream") is True,
        simulated=gateway.get("simulate") is True,
        file_base_url=written,
    )


def require_gateway(experiment: Path | None, *, model: str | None, environment: Mapping[str, str]) -> Target:
    """The target, where base URL and model are known and fit to be written down.

    Raises:
        InputError: one of them is missing.
        ExperimentInvalid: the experiment file cannot be run.
    """
    if experiment is not None:
        load(experiment)
    target, _ = read_target(experiment, model=model, environment=environment)
    if target.simulated:
        raise InputError(f"{experiment}: the simulated gateway has no address that a client could use.")
    if target.base_url is None:
        raise InputError(f"No base URL: name an experiment file, or set {BASE_URL}.")
    if not target.models:
        raise InputError("No model: name an experiment file, or give --model.")
    return target


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return {}


def _inner(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = table.get(name)
    return inner if isinstance(inner, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
