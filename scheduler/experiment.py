"""The experiment file: one TOML file that says what a run is. What it may hold stands in these models."""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from analysis.prices import Price
from db.runs import RUN_ID_PATTERN
from scheduler.errors import ExperimentInvalid
from scheduler.tasks import Task, load_tasks
from workers.strategies import Strategy, StrategyInvalid, strategy

ADJUSTABLE = ("limits", "budget", "retries", "analysis")
ADJUSTABLE_GATEWAY = ("timeout_s", "stream", "api_key_env")
NAME_PATTERN = r"^[^\x00-\x1f\x7f]{1,100}$"


class Section(BaseModel):
    """A table of the file; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class GatewaySection(Section):
    base_url: str | None = None
    """Used exactly as given; the SDK adds `/chat/completions`. TAOTOKEN_BASE_URL overrides it."""
    api_key_env: str = Field(default="TAOTOKEN_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable that holds the key. The key itself is never written anywhere."""
    timeout_s: float = Field(default=120, gt=0, le=86_400)
    """Deadline of one call."""
    stream: bool = False
    simulate: bool = False
    """Answer from a simulated gateway that `paretoken run` starts itself; needs neither URL nor key."""

    @field_validator("base_url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        if url is not None and not re.match(r"^https?://[^\s/]+", url):
            raise ValueError("must start with http:// or https:// and name a host")
        return url

    @model_validator(mode="after")
    def _one_source(self) -> "GatewaySection":
        if self.simulate == (self.base_url is not None):
            raise ValueError("needs either base_url or simulate = true")
        return self


class ModelSection(Section):
    name: str = Field(min_length=1, max_length=200)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int = Field(default=1200, ge=1, le=1_000_000)


class PriceSection(Section):
    """USD per 1,000,000 tokens."""

    input_usd_per_1m: float = Field(ge=0, allow_inf_nan=False)
    output_usd_per_1m: float = Field(ge=0, allow_inf_nan=False)
    cached_input_usd_per_1m: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class LimitsSection(Section):
    """Shared by all workers on all machines, per gateway key and model."""

    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    concurrency: int | None = Field(default=None, ge=1)


class BudgetSection(Section):
    """Upper bounds, reserved before a call is sent."""

    run_tokens: int | None = Field(default=None, ge=1)
    run_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    trial_tokens: int | None = Field(default=None, ge=1)
    trial_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class RetriesSection(Section):
    max_tries: int = Field(default=6, ge=1, le=100)
    """Tries of one job; throttling and waiting use up none."""
    backoff_s: float = Field(default=1.0, gt=0)
    """First step of the exponential back-off; the wait is drawn from 0 to the step (full jitter)."""
    backoff_max_s: float = Field(default=60.0, gt=0)
    max_throttled_s: float = Field(default=86_400, gt=0)
    """How long one job may be throttled in a row before it fails."""
    max_lost_leases: int = Field(default=5, ge=1, le=100)
    """How often a job's worker may vanish before the job counts as poison."""


class AnalysisSection(Section):
    baseline: str | None = None
    threshold_elo_per_1k: float = 2.0
    reference_cost_usd: float | None = Field(default=None, gt=0)


class StrategySection(BaseModel):
    """`name`, `kind`, `family`; every other key is a parameter of the kind."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = Field(pattern=NAME_PATTERN)
    kind: str
    family: str | None = Field(default=None, pattern=NAME_PATTERN)


class Experiment(Section):
    run_id: str | None = Field(default=None, pattern=RUN_ID_PATTERN)
    source_platform: str = Field(default="local", pattern=NAME_PATTERN)
    tasks: str
    """Task file (JSON Lines), relative to the experiment file."""
    repeats: int = Field(default=1, ge=1, le=10_000)
    seed: int | None = None
    """Sent with every call (plus its repeat and sample), for gateways that know it."""
    reruns_on_failed_check: int = Field(default=0, ge=0, le=1)
    """Whether a trial that fails its checks is run again, if its one repetition is left; else a person decides."""
    allow_commands: bool = False
    """Whether tasks may have checks that run a program or function of the user's own on every worker."""
    gateway: GatewaySection
    model: ModelSection
    prices: dict[str, PriceSection] = {}
    limits: LimitsSection = LimitsSection()
    budget: BudgetSection = BudgetSection()
    retries: RetriesSection = RetriesSection()
    analysis: AnalysisSection = AnalysisSection()
    strategies: list[StrategySection] = Field(min_length=1)


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
    tasks: Sequence[Task]
    experiment_hash: str
    prompts_hash: str
    warnings: Sequence[str]

    @property
    def prices(self) -> Mapping[str, Price]:
        return {model: Price(**price.model_dump()) for model, price in self.settings.prices.items()}

    def document(self) -> dict[str, Any]:
        """What is stored with the run. JSON types, no key."""
        settings = self.settings.model_dump(mode="json", exclude={"strategies", "run_id"})
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
    base_url = (
        None
        if settings.gateway.simulate
        else os.environ.get("TAOTOKEN_BASE_URL") or settings.gateway.base_url
    )
    strategies = list(_strategies(path, settings))
    _check_prices(path, settings, strategies)
    tasks, warnings = load_tasks(path.parent / settings.tasks)
    loaded = LoadedExperiment(
        path=path,
        run_id="",
        settings=settings,
        base_url=base_url,
        strategies=strategies,
        tasks=tasks,
        experiment_hash="",
        prompts_hash=digest([s.strategy.model_dump(mode="json") for s in strategies]),
        warnings=[*warnings, *_price_warnings(settings, strategies), *_temperature_warnings(strategies)],
    )
    experiment_hash = digest(identity(loaded.document()))
    # Without a name of its own a run is named by its content: the same file continues it, a changed one is new.
    name = run_id or settings.run_id or f"{_slug(path.stem)}-{experiment_hash[:8]}"
    if not re.fullmatch(RUN_ID_PATTERN, name):
        raise ExperimentInvalid(f"run id {name!r}: letters, digits, '.', '_' and '-' only, at most 100")
    return replace(loaded, run_id=name, experiment_hash=experiment_hash)


def digest(value: object) -> str:
    """SHA-256 of a JSON value, the same for every order of keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _settings(path: Path) -> Experiment:
    try:
        raw = tomllib.loads(path.read_bytes().decode("utf-8"))
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
    try:
        return Experiment.model_validate(raw)
    except ValidationError as error:
        _refuse(path, error)


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


def _refuse(path: Path, error: ValidationError) -> NoReturn:
    first = error.errors()[0]
    field = ".".join(str(part + 1) if isinstance(part, int) else part for part in first["loc"]) or "the file"
    if first["type"] == "extra_forbidden":
        allowed = _allowed(first["loc"])
        near = get_close_matches(str(first["loc"][-1]), allowed, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise ExperimentInvalid(f"{path}: {field}: unknown key. {hint}Allowed: {', '.join(allowed)}.")
    said = first["msg"].removeprefix("Value error, ")
    given = first["input"]
    shown = f" (found {given!r})" if isinstance(given, str | int | float | bool) else ""
    raise ExperimentInvalid(f"{path}: {field}: {said}{shown}.")


def _allowed(location: tuple[int | str, ...]) -> list[str]:
    """The keys that the table of an unknown key may have: all tables but `prices.MODEL` are plain fields."""
    if location[0] == "prices":
        return sorted(PriceSection.model_fields)
    model: Any = Experiment
    for part in location[:-1]:
        model = model.model_fields[str(part)].annotation
    return sorted(model.model_fields)


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
        given = section.model_extra or {}
        try:
            built = strategy(section.kind, defaults | given)
        except StrategyInvalid as error:
            raise ExperimentInvalid(f"{path}: strategies.{number} ({section.name!r}): {error}") from None
        yield PlannedStrategy(name=section.name, family=family, tier=tiers[family], strategy=built)


def models_of(strategies: Sequence[PlannedStrategy]) -> list[str]:
    """Every model that any role of a strategy calls, sorted."""
    return sorted({model for planned in strategies for model in planned.strategy.models})


def _check_prices(path: Path, settings: Experiment, strategies: Sequence[PlannedStrategy]) -> None:
    budget = settings.budget
    unpriced = [model for model in models_of(strategies) if model not in settings.prices]
    if unpriced and (budget.run_cost_usd is not None or budget.trial_cost_usd is not None):
        raise ExperimentInvalid(
            f"{path}: budget: a budget in USD needs a price for every model; "
            f"add [prices.{json.dumps(unpriced[0])}]."
        )


def _price_warnings(settings: Experiment, strategies: Sequence[PlannedStrategy]) -> list[str]:
    unpriced = [model for model in models_of(strategies) if model not in settings.prices]
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
