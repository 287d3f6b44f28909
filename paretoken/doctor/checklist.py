"""All checks in the order in which a person would mend what they find."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from paretoken.clients.checking import check_clients
from paretoken.doctor.address import check_base_url
from paretoken.doctor.packages import check_packages, usable
from paretoken.doctor.target import Target, read_target
from paretoken.doctor.variables import check_key, check_leftovers, secrets_in
from paretoken.findings import Finding, ok, warning, without_secrets
from scheduler.experiment import BASE_URL

REQUEST_TIMEOUT_S = 15.0


def checklist(
    experiment: Path | None,
    *,
    model: str | None = None,
    offline: bool = False,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> list[Finding]:
    """Everything that was found, without any key in it. Reads the process's environment and current folder.

    `offline` asks no gateway and needs no key; `timeout_s` is the limit of each of the at most ten requests.
    """
    packages = check_packages()
    fit = usable(packages)
    target, findings = read_target(experiment, model=model, environment=os.environ)
    findings = [*packages, *findings, *_gateway(target, offline=offline or not fit, timeout_s=timeout_s)]
    if fit:
        # Late, as all that needs the libraries: with wrong ones it may not even be imported.
        from paretoken.doctor.servers import check_servers

        findings += check_servers(os.environ)
    findings += _client_files(target)
    return without_secrets(findings, secrets_in(os.environ, target.key_variable))


def _gateway(target: Target, *, offline: bool, timeout_s: float) -> list[Finding]:
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

    probing = check_gateway(target, base_url=base_url, key=key.secret, timeout_s=timeout_s)
    return [*findings, *asyncio.run(probing)]


def _client_files(target: Target) -> list[Finding]:
    found = check_clients(
        home=Path.home(),
        project=Path.cwd(),
        base_url=target.base_url,
        environment=os.environ,
        key_variable=target.key_variable,
    )
    # Other programs' files stop no run.
    return [_as_warning(one) for one in found]


def _as_warning(found: Finding) -> Finding:
    """The same, where it stops nothing."""
    return replace(found, level="warning") if found.level == "failure" else found
