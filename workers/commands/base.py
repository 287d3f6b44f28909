"""What a client is: how an agent's program is started, and how its report is read."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from analysis.usage import UNKNOWN_USAGE, Usage


class ReportInvalid(ValueError):
    """The program printed something else than its client's report; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """The gateway as a program is told of it, in its environment only."""

    base_url: str | None
    """None: the program's own settings in its HOME name gateway and model."""
    model: str
    key: str
    key_variable: str
    """The variable that the experiment keeps the key in; settings may name it."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one turn of an agent used, or a whole run whose client does not tell its turns apart."""

    usage: Usage = UNKNOWN_USAGE
    raw: Mapping[str, Any] | None = None
    """As the client reported it; what else it says of the cost is kept in it as a note."""
    content: str | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a client says of its run."""

    answer: str | None
    turns: Sequence[Turn] = (Turn(),)
    """At least one. Several only where the client tells the usage of each."""
    by_turns: bool = False
    """Whether each of them is a turn; else the one stands for the whole run."""
    error: str | None = None
    """What went wrong, in the client's words; None where nothing did."""
    http_status: int | None = None
    """With an error: the status that the gateway answered with, where the client tells it."""
    progressed: bool = False
    """With an error: whether requests before it may have been served, and so paid."""
    response_id: str | None = None
    models: frozenset[str] = frozenset()
    """Models that the client says it has used, as `Client.gateway_model` has them; empty where it does not."""


class Client(ABC):
    """One kind of program."""

    name: ClassVar[str]
    program: ClassVar[Sequence[str]]
    """What is started where the experiment names no command; empty where it must."""
    settings_file: ClassVar[str]
    """Where in its HOME it looks for settings; empty where it has none."""

    @abstractmethod
    def arguments(self, address: Address, more: Sequence[str]) -> Sequence[str]:
        """What follows the command, with the user's own further arguments. The prompt comes on standard input."""

    @abstractmethod
    def variables(self, address: Address) -> Mapping[str, str]:
        """What its environment holds of its own: the key is here and nowhere else."""

    @abstractmethod
    def read(self, printed: str) -> Report:
        """The report in what it printed on standard output. Raises `ReportInvalid`."""

    def base_url(self, url: str) -> str:
        """The gateway's base URL as this program wants it."""
        return url

    def gateway_model(self, model: str) -> str:
        """The name that the gateway is asked for, of a model's name as this program knows it."""
        return model


def objects_in(printed: str) -> Sequence[Mapping[str, Any]]:
    """The JSON objects among the lines of a text; other lines are somebody's chatter."""
    found = (_object(line) for line in printed.splitlines() if line.lstrip().startswith("{"))
    return [value for value in found if value is not None]


def last_object(printed: str) -> Mapping[str, Any]:
    """The one JSON object that a program printed, over several lines too, or the last line that is one."""
    if (whole := _object(printed)) is not None:
        return whole
    found = objects_in(printed)
    if not found:
        raise ReportInvalid("it printed no JSON object" if printed.strip() else "it printed nothing")
    return found[-1]


def text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


def known(usage: Usage) -> Usage:
    """The usage, unless it is all zeros: an agent that ran has used some tokens, so zeros say that nobody counted."""
    return usage if usage.input_tokens or usage.output_tokens else UNKNOWN_USAGE


def _finite(text: str) -> float | None:
    """Unknown where it is too large for a float: no database stores that as JSON."""
    value = float(text)
    return value if math.isfinite(value) else None


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
