"""What is wrong with Codex' files."""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from paretoken.clients import codex
from paretoken.clients.addresses import WrongEnd, check_address
from paretoken.clients.reading import ClientFile, inner, leaves, literal_keys, read, shown_name
from paretoken.doctor.variables import same_gateway
from paretoken.findings import Finding, failure, ok, shown_url, warning
from workers.keys import is_variable

WHAT = "Codex"
_BUILT_IN = frozenset({"openai", "ollama", "lmstudio", "oss", "ollama-chat", "amazon-bedrock"})
_TEXTS = ("name", "base_url", "env_key", "wire_api")
"""Of a provider."""
_WRONG_END = WrongEnd(
    end="/anthropic",
    why="is the address for Claude Code",
    do="Codex needs the one below which the gateway serves /responses.",
)
_KNOWN = codex.TOP_KEYS | codex.PROVIDER_KEYS


def check_codex(
    *,
    home: Path,
    project: Path,
    base_url: str | None,
    environment: Mapping[str, str],
    secrets: frozenset[str],
) -> Iterator[Finding]:
    """Findings about the user's file and the project's; none where there is no file."""
    own = Path(environment["CODEX_HOME"]) if environment.get("CODEX_HOME") else home / ".codex"
    user, others = own / "config.toml", project / codex.FILE
    found = {path: read(path, what=WHAT) for path in (user, others)}
    files = {path: file for path, file in found.items() if isinstance(file, ClientFile)}
    findings = [
        *(one for one in found.values() if isinstance(one, Finding)),
        *(finding for file in files.values() for finding in _file(file, base_url, environment, secrets)),
        *(_in_project(files[others]) if others in files and others != user else ()),
        *(_shell(files[user], environment) if user in files else ()),
    ]
    yield from findings or [ok(WHAT, f"{path}: as it should be") for path in files]


def _file(
    file: ClientFile, base_url: str | None, environment: Mapping[str, str], secrets: frozenset[str]
) -> Iterator[Finding]:
    yield from _unknown(file, file.document, codex.TOP_KEYS)
    yield from _types(file)
    providers = inner(file.document, "model_providers")
    chosen = file.document.get("model_provider")
    if isinstance(chosen, str) and chosen not in providers and chosen not in _BUILT_IN:
        seen = f"{file.place('model_provider')}: there is no [model_providers.{shown_name(chosen)}]"
        yield failure(WHAT, seen, "Add it, or name one that there is.")
    for name, provider in providers.items():
        if isinstance(provider, dict):
            used = name == chosen or chosen is None
            yield from _provider(file, provider, base_url if used else None, environment if used else None)
    for name, value in leaves(file.document):
        if name.startswith("ANTHROPIC_") or (name == "env_key" and str(value).startswith("ANTHROPIC_")):
            shown = shown_name(name if name != "env_key" else str(value))
            seen = f"{file.place(name)}: {shown} is a variable of Claude Code"
            yield failure(
                WHAT, seen, "Codex reads the key from the variable that env_key names. Take the other out."
            )
    for name in literal_keys(file.document, secrets):
        do = 'Take it out and set env_key = "NAME_OF_THE_VARIABLE"; a key that was shared: replace it.'
        yield failure(WHAT, f"{file.place(name)}: {shown_name(name, _KNOWN)} holds a key itself", do)


def _provider(
    file: ClientFile,
    provider: Mapping[str, Any],
    base_url: str | None,
    environment: Mapping[str, str] | None,
) -> Iterator[Finding]:
    yield from _unknown(file, provider, codex.PROVIDER_KEYS)
    wire = provider.get("wire_api", "responses")
    if isinstance(wire, str) and wire != "responses":
        said = (
            "wire_api = 'chat' is refused since Codex 0.95"
            if wire == "chat"
            else "wire_api is not 'responses'"
        )
        seen = f"{file.place('wire_api')}: {said}"
        yield failure(WHAT, seen, 'Set wire_api = "responses"; the gateway must serve /responses then.')
    if isinstance(url := provider.get("base_url"), str):
        yield from check_address(file, "base_url", url, what=WHAT, base_url=base_url, wrong=_WRONG_END)
    variable = provider.get("env_key")
    if not isinstance(variable, str):
        return
    if not is_variable(variable):
        do = 'It names an environment variable: env_key = "TAOTOKEN_API_KEY". A key that was shared: replace it.'
        yield failure(WHAT, f"{file.place('env_key')}: env_key is no name of a variable", do)
    elif environment is not None and not environment.get(variable):
        do = f"export {variable}=… before codex is started."
        yield warning(WHAT, f"{file.place('env_key')}: {variable} is not set", do)


def _types(file: ClientFile) -> Iterator[Finding]:
    """Entries of another type than Codex reads."""
    document = file.document
    providers = inner(document, "model_providers")
    wrong = [name for name in ("model", "model_provider") if not isinstance(document.get(name, ""), str)]
    for provider in providers.values():
        if isinstance(provider, dict):
            wrong += [name for name in _TEXTS if not isinstance(provider.get(name, ""), str)]
    for name in wrong:
        yield failure(WHAT, f"{file.place(name)}: {name} is no text", "Put it in double quotes.")
    if not isinstance(document.get("model_providers", {}), dict):
        seen = f"{file.place('model_providers')}: model_providers is no table"
        yield failure(WHAT, seen, "It looks like [model_providers.NAME], with the provider's lines below.")
    for name, provider in providers.items():
        if not isinstance(provider, dict):
            seen = f"{file.place(name)}: the entry of model_providers is no table"
            yield failure(
                WHAT, seen, "It looks like [model_providers.NAME], with the provider's lines below."
            )


def _unknown(file: ClientFile, table: Mapping[str, Any], known: Collection[str]) -> Iterator[Finding]:
    for name in table:
        if name not in known and not name.startswith("ANTHROPIC_"):
            near = get_close_matches(name, known, n=1, cutoff=0.7)
            do = (
                f"Did you mean {near[0]}?"
                if near
                else "Check its spelling: Codex ignores such a key without a word."
            )
            yield warning(
                WHAT, f"{file.place(name)}: unknown key {shown_name(name, [name] if near else [])}", do
            )


def _in_project(file: ClientFile) -> Iterator[Finding]:
    for name in sorted(codex.USER_ONLY & file.document.keys()):
        seen = f"{file.place(name)}: {name} is ignored in a project's file by current versions"
        yield warning(WHAT, seen, "Put it into ~/.codex/config.toml.")


def _shell(file: ClientFile, environment: Mapping[str, str]) -> Iterator[Finding]:
    given = environment.get("OPENAI_BASE_URL")
    providers = inner(file.document, "model_providers").values()
    urls = [provider.get("base_url") for provider in providers if isinstance(provider, dict)]
    if given and not any(isinstance(url, str) and same_gateway(url, given) for url in urls):
        seen = f"OPENAI_BASE_URL ({shown_url(given)}) is set, and Codex ignores it"
        yield warning(WHAT, seen, f"What counts is base_url in {file.path}; unset OPENAI_BASE_URL.")
