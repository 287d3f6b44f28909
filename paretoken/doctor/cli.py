"""`paretoken doctor`: the checklist from the command line."""

from pathlib import Path
from typing import Annotated

import typer


def doctor(
    experiment: Annotated[
        Path | None, typer.Argument(help="Experiment file; without it: the environment alone.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model to try; default: the experiment's.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Make no request to the gateway, and need no key.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for a script.")] = False,
) -> None:
    """Check key, base URL, gateway, servers and client files, and say what to do; exit code 1 on a failure.

    Makes at most ten small requests; those that are answered cost a few tokens each.

    Example: paretoken doctor my.toml
    """
    from paretoken.doctor.checklist import checklist
    from paretoken.findings import report

    report(checklist(experiment, model=model, offline=offline), as_json=as_json)
