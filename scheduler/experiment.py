"""The experiment file: one TOML file that says what a run is. `scheduler.sections` says what it may hold."""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from analysis.prices import Price
from db.ledger_row import TIE
from db.runs import RUN_ID_PATTERN
from scheduler.commands import check_command, command_warnings, with_home
from scheduler.errors import ExperimentInvalid
from scheduler.judges import RESERVED_NAMES, Estimate, PlannedJudge, estimate
from scheduler.sections import RUN_ID_RULE, Experiment, checked_url, complaint
from scheduler.tasks import Task, load_tasks
from workers.judges import JudgeInvalid, judge
from workers.strategies import Strategy, StrategyInvalid, strategy
from workers.strategies.command import Command

BASE_URL = "TAOTOKEN_BASE_URL"

ADJUSTABLE = ("limits", "budget", "retries", "analysis", "ranking")
ADJUSTABLE_GATEWAY = ("timeout_s", "stream", "api_key_env")


@dataclass(frozen=True, kw_only=True)
class PlannedStrategy:
    """A strategy of the experiment with all its parameters filled in."""

    name: str
    family: str
    tier: int
    """Its place in the family, from 1, as the file orders it."""
    strategy: Strategy


@dataclass(frozen=True, kw_only=True)
class LoadedExperiment:
    """An experiment file that was read, checked and found good, with its tasks."""

    path: Path
    run_id: str
    settings: Experiment
    base_url: str | None
    """Where the gateway is; None for the simulated one, whose address is known when it runs."""
    strategies: Sequence[PlannedStrategy]
    judges: Sequence[PlannedJudge]
    tasks: Sequence[Task]
    experiment_hash: str
    prompts_hash: str
    warnings: Sequence[str]

    @property
    def prices(self) -> Mapping[str, Price]:
        return {model: Price(**price.model_dump()) for model, price in self.settings.prices.items()}

    @property
    def models(self) -> list[str]:
        """Every model that the run calls, sorted."""
        return models_of(self.strategies, self.judges)

    def estimates(self) -> list[Estimate]:
        """What each judge can take at the most."""
        return [
            estimate(
                planned,
                tasks_bytes=[task.prompt_bytes for task in self.tasks],
                repeats=self.settings.repeats,
                answer_tokens=[s.strategy.max_tokens for s in self.strategies],
                price=self.prices.get(planned.judge.model),
            )
            for planned in self.judges
        ]

    def document(self) -> dict[str, Any]:
        """What is stored with the run. JSON types, no key."""
        settings = self.settings.model_dump(mode="json", exclude={"strategies", "judges", "run_id"})
        settings["gateway"]["base_url"] = self.base_url
        return settings | {
            "strategies": [
                {
                    "name": s.name,
                    "kind": s.strategy.kind,
                    "family": s.family,
                    **s.strategy.model_dump(mode="json"),
                }
                for s in self.strategies
            ],
            "judges": [planned.document() for planned in self.judges],
            "tasks": [task.digest() for task in self.tasks],
        }


def identity(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a stored experiment that makes it the same experiment: all that shapes an answer or its price.

    Limits, budgets, retries, time-outs and the analysis may change between two starts of one run.
    """
    kept = {name: value for name, value in document.items() if name not in ADJUSTABLE}
    return kept | {"gateway": {k: v for k, v in document["gateway"].items() if k not in ADJUSTABLE_GATEWAY}}


def load(path: Path, *, run_id: str | None = None) -> LoadedExperiment:
    """Read and check an experiment file and its task file.

    Raises:
        ExperimentInvalid: one line with file, field or line, and what is allowed.
    """
    settings = _settings(path)
    base_url = _base_url(settings)
    strategies = list(_strategies(path, settings))
    judges = list(_judges(path, settings))
    _check_prices(path, settings, models_of(strategies, judges))
    _check_baseline(path, settings, strategies)
    _check_ranking(path, settings, strategies, judges)
    tasks, warnings = load_tasks(path.parent / settings.tasks, allow_commands=settings.allow_commands)
    loaded = LoadedExperiment(
        path=path,
        run_id="",
        settings=settings,
        base_url=base_url,
        strategies=strategies,
        judges=judges,
        tasks=tasks,
        experiment_hash="",
        prompts_hash=digest(
            [
                *(s.strategy.model_dump(mode="json") for s in strategies),
                *(planned.document() for planned in judges),
            ]
        ),
        warnings=[
            *warnings,
            *_price_warnings(settings, models_of(strategies, judges)),
            *_temperature_warnings(strategies),
            *command_warnings([planned.strategy for planned in strategies], settings),
        ],
    )
    experiment_hash = digest(identity(loaded.document()))
    # Without a name of its own a run is named by its content: the same file continues it, a changed one is new.
    name = run_id or settings.run_id or f"{_slug(path.stem)}-{experiment_hash[:8]}"
    if not re.fullmatch(RUN_ID_PATTERN, name):
        raise ExperimentInvalid(f"run id {name!r}: {RUN_ID_RULE}.")
    return replace(loaded, run_id=name, experiment_hash=experiment_hash)


def digest(value: object) -> str:
    """SHA-256 of a JSON value, the same for every order of keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _settings(path: Path) -> Experiment:
    try:
        raw = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ExperimentInvalid(
            f"{path}: cannot be read ({error.strerror}). Name an experiment file."
        ) from None
    except UnicodeDecodeError as error:
        raise ExperimentInvalid(f"{path}: byte {error.start} is no UTF-8. Save the file as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ExperimentInvalid(f"{path}: not TOML: {error}") from None
    for field, value in _leaves(raw):
        if isinstance(value, str) and re.fullmatch(r"<[^<>]*>", value):
            raise ExperimentInvalid(f"{path}: {field} = {value!r} is a placeholder. Fill in your own value.")
        if isinstance(value, str) and "\x00" in value:
            raise ExperimentInvalid(f"{path}: {field}: holds a NUL character. Remove it.")
    try:
        return Experiment.model_validate(raw)
    except ValidationError as error:
        raise ExperimentInvalid(f"{path}: {complaint(error)}") from None


def _base_url(settings: Experiment) -> str | None:
    if settings.gateway.simulate:
        return None
    given = os.environ.get(BASE_URL)
    if not given:
        return settings.gateway.base_url
    try:
        return checked_url(given)
    except ValueError as error:
        # The URL itself may hold a password: it is not repeated.
        raise ExperimentInvalid(f"{BASE_URL} in the environment: {error}.") from None


def _leaves(value: object, field: str = "") -> Iterator[tuple[str, object]]:
    """Every (field, value) of the file; a placeholder used as a key is a leaf too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            name = f"{field}.{key}" if field else key
            yield name, key
            yield from _leaves(inner, name)
    elif isinstance(value, list):
        for number, inner in enumerate(value, start=1):
            yield from _leaves(inner, f"{field}[{number}]")
    else:
        yield field, value


def _strategies(path: Path, settings: Experiment) -> Iterator[PlannedStrategy]:
    defaults = {
        "model": settings.model.name,
        "temperature": settings.model.temperature,
        "max_tokens": settings.model.max_tokens,
    }
    tiers: dict[str, int] = {}
    seen: set[str] = set()
    for number, section in enumerate(settings.strategies, start=1):
        if section.name in seen:
            raise ExperimentInvalid(f"{path}: strategies.{number}: a second strategy named {section.name!r}.")
        seen.add(section.name)
        family = section.family or section.kind
        tiers[family] = tiers.get(family, 0) + 1
        given: Mapping[str, Any] = section.model_extra or {}
        try:
            if section.kind == Command.kind:
                given = with_home(given, path.parent, key_variable=settings.gateway.api_key_env)
            built = strategy(section.kind, {**defaults, **given})
            check_command(built, settings)
        except (StrategyInvalid, ExperimentInvalid) as error:
            raise ExperimentInvalid(f"{path}: strategies.{number} ({section.name!r}): {error}") from None
        yield PlannedStrategy(name=section.name, family=family, tier=tiers[family], strategy=built)


def _judges(path: Path, settings: Experiment) -> Iterator[PlannedJudge]:
    defaults = {"model": settings.model.name, "max_tokens": settings.model.max_tokens}
    seen: set[str] = set(RESERVED_NAMES)
    for number, section in enumerate(settings.judges, start=1):
        if section.name in seen:
            what = (
                "a word with a meaning of its own" if section.name in RESERVED_NAMES else "a second judge's"
            )
            raise ExperimentInvalid(
                f"{path}: judges.{number}: the name {section.name!r} is {what}. Change it."
            )
        seen.add(section.name)
        try:
            built = judge(section.kind, defaults | (section.model_extra or {}))
        except JudgeInvalid as error:
            raise ExperimentInvalid(f"{path}: judges.{number} ({section.name!r}): {error}") from None
        yield PlannedJudge(name=section.name, judge=built)


def models_of(strategies: Sequence[PlannedStrategy], judges: Sequence[PlannedJudge]) -> list[str]:
    """Every model that any role of a strategy, or a judge, calls, sorted."""
    asked = {planned.judge.model for planned in judges}
    return sorted(asked.union(*(planned.strategy.models for planned in strategies)))


def _check_ranking(
    path: Path,
    settings: Experiment,
    strategies: Sequence[PlannedStrategy],
    judges: Sequence[PlannedJudge],
) -> None:
    allowed = [*RESERVED_NAMES, *(planned.name for planned in judges)]
    if settings.ranking.use is not None and settings.ranking.use not in allowed:
        raise ExperimentInvalid(
            f"{path}: ranking.use: no judge is named {settings.ranking.use!r}. Allowed: {', '.join(allowed)}."
        )
    for number, planned in enumerate(strategies, start=1):
        if judges and planned.name == TIE:
            raise ExperimentInvalid(
                f"{path}: strategies.{number}: a verdict that nobody wins is called {TIE!r}. Rename the strategy."
            )


def _check_prices(path: Path, settings: Experiment, models: Sequence[str]) -> None:
    budget = settings.budget
    unpriced = [model for model in models if model not in settings.prices]
    if unpriced and (budget.run_cost_usd is not None or budget.trial_cost_usd is not None):
        raise ExperimentInvalid(
            f"{path}: budget: a budget in USD needs a price for every model; "
            f"add [prices.{json.dumps(unpriced[0])}]."
        )


def _check_baseline(path: Path, settings: Experiment, strategies: Sequence[PlannedStrategy]) -> None:
    baseline, names = settings.analysis.baseline, [planned.name for planned in strategies]
    if baseline is not None and baseline not in names:
        near = get_close_matches(baseline, names, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise ExperimentInvalid(
            f"{path}: analysis.baseline: no strategy is named {baseline!r}. {hint}Strategies: {', '.join(names)}."
        )


def _price_warnings(settings: Experiment, models: Sequence[str]) -> list[str]:
    unpriced = [model for model in models if model not in settings.prices]
    return [f"No price for {', '.join(unpriced)}: cost stays unknown."] if unpriced else []


def _temperature_warnings(strategies: Sequence[PlannedStrategy]) -> list[str]:
    return [
        f"Strategy {planned.name!r} draws {planned.strategy.opening_samples} samples at temperature 0: they will be "
        "all alike. Set its own temperature."
        for planned in strategies
        if planned.strategy.opening_samples > 1 and planned.strategy.temperature == 0
    ]


def _slug(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:80] or "run"
