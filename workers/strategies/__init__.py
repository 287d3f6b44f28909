"""Strategies by kind. A new kind is one file with one `Strategy` class, and its line in `KINDS`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from workers.kinds import build
from workers.strategies.agent import Agent
from workers.strategies.base import (
    Answer,
    Ended,
    ModelCall,
    Reply,
    Strategy,
    StrategyInvalid,
    TaskView,
    ToolStep,
)
from workers.strategies.best_of_n import BestOfN
from workers.strategies.chain_of_thought import ChainOfThought
from workers.strategies.command import Command
from workers.strategies.debate import Debate
from workers.strategies.self_consistency import SelfConsistency
from workers.strategies.self_refine import SelfRefine
from workers.strategies.single import Single
from workers.strategies.verifier_rerank import VerifierRerank

__all__ = [
    "KINDS",
    "Answer",
    "Ended",
    "ModelCall",
    "Reply",
    "Strategy",
    "StrategyInvalid",
    "TaskView",
    "ToolStep",
    "strategy",
]

KINDS: Mapping[str, type[Strategy]] = MappingProxyType(
    {
        model.kind: model
        for model in (
            Single, ChainOfThought, SelfConsistency, Debate, VerifierRerank, BestOfN, SelfRefine, Agent, Command,
        )
    }
)  # fmt: skip


def strategy(kind: str, params: Mapping[str, Any]) -> Strategy:
    """The strategy of this kind with these parameters; a `None` leaves the kind's default.

    Raises:
        StrategyInvalid: what to change.
    """
    given = {name: value for name, value in params.items() if value is not None}
    return build(KINDS, kind, given, StrategyInvalid)
