"""What is wrong with Claude Code's files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from paretoken.clients import claude_code
from paretoken.clients.addresses import WrongEnd, check_address
from paretoken.clients.reading import ClientFile, inner, literal_keys, read, shown_name
from paretoken.findings import Finding, failure, ok, shown_key, shown_url, warning
from workers.keys import looks_like_key

WHAT = "Claude Code"
_URL = "ANTHROPIC_BASE_URL"
_WRONG_END = WrongEnd(
    end="/v1", why="ends in /v1, to which Claude Code adds /v1/messages", do="Take /v1 off."
)
_KNOWN = frozenset({"apiKeyHelper", "apiKey"})
# Names of models and the like; a key has longer parts.
_PLAIN = re.compile(r"[a-z0-9]{1,12}([-_.:/@,\[\] ]{1,2}[a-z0-9]{1,12})*\]?", re.IGNORECASE)
_MOST_SHOWN = 60


def check_claude_code(
    *,
    home: Path,
    project: Path,
    base_url: str | None,
    environment: Mapping[str, str],
    secrets: frozenset[str],
) -> Iterator[Finding]:
    """Findings about the user's file and the project's; none where there is no file."""
    paths = [home / claude_code.USER_FILE, *(project / name for name in claude_code.PROJECT_FILES)]
    found = [read(path, what=WHAT) for path in dict.fromkeys(paths)]
    good = [one for one in found if isinstance(one, ClientFile)]
    findings = [
        *(one for one in found if isinstance(one, Finding)),
        *(finding for file in good for finding in _file(file, base_url=base_url, secrets=secrets)),
        *_overridden(good),
        *_shell(good, environment),
    ]
    yield from findings or [ok(WHAT, f"{file.path}: as it should be") for file in good]


def _file(file: ClientFile, *, base_url: str | None, secrets: frozenset[str]) -> Iterator[Finding]:
    env = inner(file.document, "env")
    if "env" in file.document and not isinstance(file.document["env"], dict):
        yield failure(
            WHAT, f"{file.place('env')}: env is no object", 'It looks like "env": {"NAME": "value"}.'
        )
    for name in file.document:
        if name in claude_code.VARIABLES:
            yield failure(WHAT, f"{file.place(name)}: {name} stands outside env", 'Move it into "env": {…}.')
    for name, value in [("apiKeyHelper", file.document.get("apiKeyHelper", "")), *env.items()]:
        if not isinstance(value, str):
            yield failure(
                WHAT, f"{file.place(name)}: {shown_name(name, _KNOWN)} is no text", "Put it in double quotes."
            )
    yield from _names(file, env)
    if isinstance(url := env.get(_URL), str) and url:
        yield from check_address(file, _URL, url, what=WHAT, base_url=base_url, wrong=_WRONG_END)
    yield from _keys(file, env, secrets)


def _names(file: ClientFile, env: Mapping[str, object]) -> Iterator[Finding]:
    for name in env:
        near = get_close_matches(name, claude_code.VARIABLES, n=1, cutoff=0.8)
        if name.startswith("ANTHROPIC") and name not in claude_code.VARIABLES and near:
            yield warning(
                WHAT, f"{file.place(name)}: unknown key {shown_name(name)}", f"Did you mean {near[0]}?"
            )


def _keys(file: ClientFile, env: Mapping[str, object], secrets: frozenset[str]) -> Iterator[Finding]:
    for name in literal_keys(file.document, secrets):
        do = 'Take it out and set "apiKeyHelper": "printenv NAME_OF_THE_VARIABLE"; a key that was shared: replace it.'
        yield failure(WHAT, f"{file.place(name)}: {shown_name(name, _KNOWN)} holds a key itself", do)
    for name in claude_code.KEYS:
        value = env.get(name)
        if isinstance(value, str) and "$" in value:
            do = 'Use "apiKeyHelper": "printenv NAME_OF_THE_VARIABLE" instead.'
            yield failure(WHAT, f"{file.place(name)}: {name} is sent as it is written, '$' and all", do)


def _overridden(files: Sequence[ClientFile]) -> Iterator[Finding]:
    """Values of a later file that differ from an earlier one's."""
    for number, later in enumerate(files):
        for earlier in files[:number]:
            before, after = inner(earlier.document, "env"), inner(later.document, "env")
            for name in before.keys() & after.keys():
                if name in claude_code.VARIABLES and before[name] != after[name]:
                    seen = (
                        f"{later.place(name)}: {name} = {_shown(name, after[name])} overrides "
                        f"{_shown(name, before[name])} of {earlier.path}"
                    )
                    yield warning(WHAT, seen, "Take it out of the project's file, unless it is meant.")


def _shell(files: Sequence[ClientFile], environment: Mapping[str, str]) -> Iterator[Finding]:
    """Variables of the shell that say something else than the files, or that are used since no file has them."""
    if not files:
        return
    written = {name: (file, value) for file in files for name, value in inner(file.document, "env").items()}
    for name in claude_code.VARIABLES:
        given = environment.get(name)
        if not given:
            continue
        if name in written and written[name][1] not in (given, ""):
            file, value = written[name]
            seen = (
                f"{name} in the shell ({_shown(name, given)}) and in {file.place(name)} ({_shown(name, value)}) "
                "differ: which of them counts depends on the client's version"
            )
            yield warning(WHAT, seen, f"unset {name}")
        elif (
            name not in written
            and name in claude_code.KEYS
            and any("apiKeyHelper" in f.document for f in files)
        ):
            seen = f"{name} in the shell ({shown_key(given)}) overrides the file's apiKeyHelper"
            yield warning(WHAT, seen, f"unset {name}")


def _shown(name: str, value: object) -> str:
    if name in claude_code.KEYS or name == "ANTHROPIC_CUSTOM_HEADERS":
        return shown_key(str(value)) if value else "nothing"
    if name == _URL:
        return shown_url(str(value))
    text = str(value)
    plain = _PLAIN.fullmatch(text) and len(text) <= _MOST_SHOWN and not looks_like_key(text)
    return text if plain else "(a value that may be a key)"
