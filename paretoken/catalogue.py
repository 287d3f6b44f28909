"""`paretoken strategies`: the kinds that an experiment can name."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from workers.strategies import Strategy

_SHOWN_CHARS = 40
_SHARED = ("model", "temperature", "max_tokens")


def strategies(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list for a script.")] = False,
) -> None:
    """List the kinds of strategies, their parameters with defaults, and the calls that a trial of each takes.

    Example: paretoken strategies --json
    """
    from workers.strategies import KINDS

    if as_json:
        typer.echo(json.dumps([described(kind) for kind in KINDS.values()], indent=2))
        return
    for kind in KINDS.values():
        found = described(kind)
        typer.echo(f"{found['kind']}: {found['does']}")
        typer.echo(f"    calls per trial: {found['calls']}")
        for parameter in found["parameters"]:
            typer.echo(f"    {_line(parameter)}")
    typer.echo("model, temperature and max_tokens are those of [model] unless a strategy sets its own.")
    typer.echo("More: docs/strategies.md")


def described(kind: "type[Strategy]") -> dict[str, Any]:
    """What can be said of a kind without building it (JSON types)."""
    from pydantic_core import PydanticUndefined

    return {
        "kind": kind.kind,
        "does": (kind.__doc__ or "").strip().splitlines()[0],
        "calls": kind.calls_formula,
        "parameters": [
            {"name": name, "required": field.default is PydanticUndefined, "about": field.description}
            | ({} if field.default is PydanticUndefined else {"default": field.default})
            for name, field in kind.model_fields.items()
            # What [model] gives is told once; a default of the kind's own is told with it.
            if name not in _SHARED or kind.model_fields[name].default not in (PydanticUndefined, None, 1200)
        ],
    }


def _line(parameter: dict[str, Any]) -> str:
    about = f"  {parameter['about'].splitlines()[0]}" if parameter["about"] else ""
    if parameter["required"]:
        return f"{parameter['name']} (must be given){about}"
    default = json.dumps(parameter["default"], ensure_ascii=False)
    shown = default if len(default) <= _SHOWN_CHARS else f"{default[:_SHOWN_CHARS]}…"
    return f"{parameter['name']} = {shown}{about}"
