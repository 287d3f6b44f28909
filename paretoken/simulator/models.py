"""The simulated models: how skilled, how talkative and how dear each one is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from analysis.prices import Price

OWNER = "paretoken-simulator"


@dataclass(frozen=True, kw_only=True)
class SimulatedModel:
    """One row of the table below."""

    name: str
    skill: float
    """On the scale of task difficulty, 0 to 1: a task as difficult as this is solved every second time."""
    verbosity: float
    """Scales the length of the reasoning, written or hidden."""
    price: Price
    """Invented, like everything here. An experiment names its own prices."""
    reasons: bool = False
    """Spends hidden reasoning tokens on every request and reports them in its usage."""
    manner: Literal["first", "noise"] | None = None
    """A useless judge: prefers whatever stands first, or writes what nobody can read."""


_USELESS_JUDGES: Mapping[str, Literal["first", "noise"]] = {
    "sim-judge-a": "first",
    "sim-judge-noise": "noise",
}

MODELS: Mapping[str, SimulatedModel] = {
    model.name: model
    for model in (
        SimulatedModel(
            name="sim-small",
            skill=0.45,
            verbosity=0.8,
            price=Price(input_usd_per_1m=0.15, output_usd_per_1m=0.60),
        ),
        SimulatedModel(
            name="sim-medium",
            skill=0.60,
            verbosity=1.0,
            price=Price(input_usd_per_1m=0.80, output_usd_per_1m=3.20),
        ),
        SimulatedModel(
            name="sim-large",
            skill=0.75,
            verbosity=1.3,
            price=Price(input_usd_per_1m=3.00, output_usd_per_1m=15.00),
        ),
        SimulatedModel(
            name="sim-reasoning",
            skill=0.85,
            verbosity=2.5,
            price=Price(input_usd_per_1m=2.00, output_usd_per_1m=8.00, cached_input_usd_per_1m=0.50),
            reasons=True,
        ),
        *(
            SimulatedModel(
                name=name,
                skill=0.5,
                verbosity=1.0,
                price=Price(input_usd_per_1m=0.15, output_usd_per_1m=0.60),
                manner=manner,
            )
            for name, manner in _USELESS_JUDGES.items()
        ),
    )
}


def model_list() -> dict[str, Any]:
    """The body of `GET /models`."""
    return {"object": "list", "data": [_listed(model) for model in MODELS.values()]}


def _listed(model: SimulatedModel) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": OWNER,
        "pricing": {
            "input_usd_per_1m": model.price.input_usd_per_1m,
            "output_usd_per_1m": model.price.output_usd_per_1m,
        },
    }
