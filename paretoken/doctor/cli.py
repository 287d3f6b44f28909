"""`paretoken doctor`: the checklist from the command line."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from paretoken.doctor.target import Target
    from paretoken.findings import Finding


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

    Makes at most ten small requests, one of them a real one that costs a few tokens.

    Example: paretoken doctor my.toml
    """
    from paretoken.doctor.variables import secrets_in
    from paretoken.findings import report, without_secrets

    findings, key_variable = _checked(experiment, model=model, offline=offline)
    report(without_secrets(findings, secrets_in(os.environ, key_variable)), as_json=as_json)


def _checked(experiment: Path | None, *, model: str | None, offline: bool) -> "tuple[list[Finding], str]":
    """All findings, and the name of the key's variable."""
    from paretoken.doctor.packages import check_packages, usable
    from paretoken.doctor.target import read_target

    # First of all: with wrong libraries the rest may not even be imported.
    packages = check_packages()
    target, findings = read_target(experiment, model=model, environment=os.environ)
    findings = [*packages, *findings, *_gateway(target, offline=offline or not usable(packages))]
    if usable(packages):
        from paretoken.doctor.servers import check_servers

        findings += check_servers(os.environ)
    return [*findings, *_client_files(target)], target.key_variable


def _gateway(target: "Target", *, offline: bool) -> "list[Finding]":
    from paretoken.doctor.address import check_base_url
    from paretoken.doctor.variables import check_key, check_leftovers
    from paretoken.findings import ok, warning
    from scheduler.experiment import BASE_URL

    if target.simulated:
        return [ok("gateway", "simulated: no key, no address")]
    keys, key = check_key(target)
    addresses, base_url = check_base_url(target.base_url, variable=BASE_URL)
    rest = [*addresses, *check_leftovers(target, os.environ)]
    if offline:
        return [*map(_as_warning, keys), *rest]
    findings = [*keys, *rest]
    if key is None or base_url is None:
        missing = "key" if key is None else "base URL"
        return [*findings, warning("gateway", f"not asked, without a usable {missing}", "Mend that first.")]
    from paretoken.doctor.probes import check_gateway

    return [*findings, *asyncio.run(check_gateway(target, base_url=base_url, key=key.secret))]


def _client_files(target: "Target") -> "list[Finding]":
    from paretoken.clients.checking import check_clients

    found = check_clients(
        home=Path.home(), project=Path.cwd(), base_url=target.base_url, environment=os.environ
    )
    # Other programs' files stop no run.
    return [_as_warning(one) for one in found]


def _as_warning(found: "Finding") -> "Finding":
    """The same, where it stops nothing."""
    from dataclasses import replace

    return replace(found, level="warning") if found.level == "failure" else found
