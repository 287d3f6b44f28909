"""Which files there are for a gateway, and how they get into a folder."""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from analysis.destination import destination
from paretoken.clients import cc_switch, claude_code, codex, shell
from paretoken.doctor.address import check_base_url, with_v1, without_v1
from paretoken.doctor.target import Target
from paretoken.errors import InputError
from scheduler.experiment import BASE_URL

App = Literal["claude-code", "codex", "cc-switch", "all"]


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """What every client needs to know; no key."""

    base_url: str
    claude_base_url: str
    codex_base_url: str
    key_variable: str
    model: str
    small_model: str
    codex_chat: bool
    """For a Codex that still speaks chat completions."""

    @property
    def name(self) -> str:
        """As clients show it: the host."""
        return urlsplit(self.base_url).hostname or "gateway"

    def claude_settings(self) -> Mapping[str, str]:
        return {
            "base_url": self.claude_base_url,
            "key_variable": self.key_variable,
            "model": self.model,
            "small_model": self.small_model,
        }

    def codex_config(self) -> str:
        return codex.config_text(
            base_url=self.codex_base_url,
            key_variable=self.key_variable,
            model=self.model,
            name=self.name,
            chat=self.codex_chat,
        )


def gateway_of(
    target: Target,
    *,
    small_model: str | None,
    claude_base_url: str | None,
    codex_base_url: str | None,
    codex_version: str | None,
) -> Gateway:
    """What the files are made from.

    Raises:
        InputError: the base URL is not fit to be written into files.
    """
    for url in (target.base_url, claude_base_url, codex_base_url):
        findings, _ = check_base_url(url, variable=BASE_URL)
        if url is not None and findings[0].level == "failure":
            raise InputError(f"base URL: {findings[0].seen}. {findings[0].do}")
    assert target.base_url is not None
    return Gateway(
        base_url=target.base_url,
        claude_base_url=without_v1(claude_base_url or target.base_url),
        codex_base_url=codex_base_url or with_v1(target.base_url),
        key_variable=target.key_variable,
        model=target.models[0],
        small_model=small_model or target.models[0],
        codex_chat=codex_version is not None and codex.takes_chat(codex_version),
    )


def files(app: App, gateway: Gateway) -> dict[str, str]:
    """Path below the folder -> content."""
    made = {
        "gateway.sh": shell.posix(base_url=gateway.base_url, key_variable=gateway.key_variable),
        "gateway.ps1": shell.powershell(base_url=gateway.base_url, key_variable=gateway.key_variable),
    }
    if app in ("claude-code", "all"):
        made[claude_code.USER_FILE] = claude_code.settings_text(**gateway.claude_settings())
    if app in ("codex", "all"):
        made[codex.FILE] = gateway.codex_config()
    if app in ("cc-switch", "all"):
        configs = {
            "claude": claude_code.settings(**gateway.claude_settings()),
            "codex": cc_switch.codex_settings(gateway.codex_config()),
        }
        for name, config in configs.items():
            made[f"cc-switch/{name}.json"] = cc_switch.record_text(
                name, name=gateway.name, settings_config=config
            )
    return made


def endpoints(app: App, gateway: Gateway) -> list[str]:
    """What the gateway must serve for these clients, a line each."""
    claude = f"Claude Code calls {claude_code.endpoint(gateway.claude_base_url)}"
    other = f"Codex calls {codex.endpoint(gateway.codex_base_url, chat=gateway.codex_chat)}"
    return {"claude-code": [claude], "codex": [other]}.get(app, [claude, other])


def links(gateway: Gateway, *, secret: str) -> list[str]:
    """CC Switch's import links, with the key in them."""
    places = {"claude": gateway.claude_base_url, "codex": gateway.codex_base_url}
    return [
        cc_switch.import_link(
            app, name=gateway.name, endpoint=places[app], secret=secret, model=gateway.model
        )
        for app in cc_switch.APPS
    ]


def write_files(made: Mapping[str, str], *, folder: Path, force: bool) -> Sequence[Path]:
    """Write them all, or none where one would replace a file with other content, or cannot be written.

    `force` replaces it and keeps the old one beside it, as `NAME.bak`, or `.bak1` … where that is taken. A link stays
    one: the file that it leads to is replaced. Files keep their mode.

    Raises:
        InputError: a file is there already, or cannot be written.
    """
    paths = {folder / name: content.encode() for name, content in made.items()}
    try:
        in_the_way = [path for path, content in paths.items() if _differs(path, content)]
        if in_the_way and not force:
            named = ", ".join(map(str, in_the_way))
            raise InputError(
                f"{named}: there already. Give another --out, or --force to replace what is there."
            )
        _replace(paths, in_the_way)
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        raise InputError(f"{folder}: cannot be written ({error}). Name another folder with --out.") from None
    return list(paths)


def _differs(path: Path, content: bytes) -> bool:
    place = destination(path)  # nothing is read of a pipe
    return place.exists() and place.read_bytes() != content


def _replace(paths: Mapping[Path, bytes], in_the_way: Sequence[Path]) -> None:
    """What may fail comes first: folders, new files under temporary names, copies of the old ones."""
    with ExitStack() as undone:
        places = [(destination(path), content) for path, content in paths.items()]
        written = [(place, _written(place, content, undone)) for place, content in places]
        for path in in_the_way:
            kept = _kept(path)
            undone.callback(kept.unlink, missing_ok=True)
            shutil.copy2(path, kept)
        for place, temporary in written:
            temporary.replace(place)
        undone.pop_all()


def _kept(path: Path) -> Path:
    """A name beside the file that nothing has: what an earlier run has kept is the user's own."""
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in count())
    return next(name for name in names if not os.path.lexists(name))


def _written(path: Path, content: bytes, undone: ExitStack) -> Path:
    """The content under a temporary name beside the file, with the file's mode where there is one."""
    for parent in [*reversed(path.parents)]:
        if not parent.exists():
            parent.mkdir()
            undone.callback(_remove_empty, parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    undone.callback(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    if path.exists():
        shutil.copymode(path, name)
    return Path(name)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
