"""What an experiment file may hold, table by table, and what is said of a file that holds something else."""

import re
from difflib import get_close_matches
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from db.runs import RUN_ID_PATTERN
from workers.keys import looks_like_key

NAME_PATTERN = r"^[^\x00-\x1f\x7f]{1,100}$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
# Whatever a double holds exactly: JSON, Lua and Postgres all take it.
MOST = 2**53

Amount = Annotated[int, Field(ge=1, le=MOST)]

RUN_ID_RULE = "letters, digits, '.', '_' and '-' only, at most 100, the first a letter or digit"
_RULES = {
    RUN_ID_PATTERN: RUN_ID_RULE,
    NAME_PATTERN: "1 to 100 characters, no line breaks or other control characters",
    VARIABLE_PATTERN: "the name of an environment variable: letters, digits and '_', not its value",
}


def checked_url(url: str) -> str:
    """The URL itself; `ValueError` says what is wrong with it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or re.search(r"\s", url):
        raise ValueError("must start with http:// or https:// and name a host")
    if parts.username is not None:
        raise ValueError("must hold no user name or password; the key comes from the environment")
    return url


class Section(BaseModel):
    """A table of the file. TOML has types, so a number as text is refused; so is an unknown key."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class GatewaySection(Section):
    base_url: str | None = None
    """Used exactly as given; the SDK adds `/chat/completions`. TAOTOKEN_BASE_URL overrides it."""
    api_key_env: str = Field(default="TAOTOKEN_API_KEY", pattern=VARIABLE_PATTERN)
    """Name of the environment variable that holds the key. The key itself is never written anywhere."""
    timeout_s: float = Field(default=120, gt=0, le=86_400)
    """Deadline of one call."""
    stream: bool = False
    simulate: bool = False
    """Answer from a simulated gateway that `paretoken run` starts itself; needs neither URL nor key."""

    @field_validator("base_url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        return url if url is None else checked_url(url)

    @field_validator("api_key_env")
    @classmethod
    def _no_key(cls, variable: str) -> str:
        if looks_like_key(variable):
            raise ValueError(f"{_RULES[VARIABLE_PATTERN]}; what stands there looks like a key")
        return variable

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

    input_usd_per_1m: float = Field(ge=0)
    output_usd_per_1m: float = Field(ge=0)
    cached_input_usd_per_1m: float | None = Field(default=None, ge=0)


class LimitsSection(Section):
    """Shared by all workers on all machines, per gateway key and model."""

    requests_per_minute: Amount | None = None
    tokens_per_minute: Amount | None = None
    concurrency: Amount | None = None


class BudgetSection(Section):
    """Upper bounds, reserved before a call is sent."""

    run_tokens: Amount | None = None
    run_cost_usd: float | None = Field(default=None, gt=0)
    trial_tokens: Amount | None = None
    trial_cost_usd: float | None = Field(default=None, gt=0)


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


class JudgeSection(BaseModel):
    """`name`, `kind`; every other key is a parameter of the kind."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = Field(pattern=NAME_PATTERN)
    kind: str


class RankingSection(Section):
    use: str | None = None
    """What says who was better: `checks`, `score`, `people`, or a judge by its name."""


class Experiment(Section):
    run_id: str | None = Field(default=None, pattern=RUN_ID_PATTERN)
    source_platform: str = Field(default="local", pattern=NAME_PATTERN)
    tasks: str
    """Task file (JSON Lines), relative to the experiment file."""
    repeats: int = Field(default=1, ge=1, le=10_000)
    seed: int | None = Field(default=None, ge=0, le=MOST)
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
    ranking: RankingSection = RankingSection()
    strategies: list[StrategySection] = Field(min_length=1)
    judges: list[JudgeSection] = []


def complaint(error: ValidationError) -> str:
    """What is wrong with the file, in one line: the field, what it may be, and what was found."""
    details = error.errors(include_url=False)
    # A key that was misspelt also leaves a gap: the misspelling explains it.
    unknown = [detail for detail in details if detail["type"] == "extra_forbidden"]
    first = (unknown or details)[0]
    return f"{_field(first['loc'])}: {_said(first)}"


def _field(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in location) or "the file"


def _said(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "extra_forbidden":
            allowed = _allowed(detail["loc"])
            near = get_close_matches(str(detail["loc"][-1]), allowed, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            return f"unknown key. {hint}Allowed: {', '.join(allowed)}."
        case "missing":
            return "is missing; every experiment needs it."
        case "model_type" | "model_attributes_type" | "dict_type":
            table = _field(detail["loc"])
            return f"must be a table, [{table}]{_found(detail)}."
        case "list_type" if detail["loc"] in (("strategies",), ("judges",)):
            return f"must be a list of tables: write [[{detail['loc'][0]}]], with double brackets."
        case "string_pattern_mismatch":
            return f"{_RULES[detail['ctx']['pattern']]}{_found(detail)}."
    return f"{detail['msg'].removeprefix('Value error, ')}{_found(detail)}."


def _found(detail: ErrorDetails) -> str:
    given = detail["input"]
    if detail["loc"][-1:] in (("base_url",), ("api_key_env",)):
        return ""  # Somebody may have put a password or the key itself there.
    return f" (found {given!r})" if isinstance(given, str | int | float | bool) else ""


def _allowed(location: tuple[int | str, ...]) -> list[str]:
    """The keys that the table of an unknown key may have: all tables but `prices.MODEL` are plain fields."""
    if location[0] == "prices":
        return sorted(PriceSection.model_fields)
    model: Any = Experiment
    for part in location[:-1]:
        model = model.model_fields[str(part)].annotation
    return sorted(model.model_fields)
