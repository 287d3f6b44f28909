"""The files that are written: what clients read in them, that no key is, and that nothing is overwritten."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from paretoken.cli import main
from paretoken.clients.writing import write_files
from paretoken.errors import InputError
from tests.experiments import GATEWAY, write_experiment

KEY = "sk-marked-8e01c7d2f4"
VARIABLE = "TEST_GATEWAY_KEY"


class Told:
    """Runs commands in this process and keeps all that they print."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str | Path, code: int = 0) -> str:
        self._monkeypatch.setattr(sys, "argv", ["paretoken", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._capsys.readouterr()
        assert ended.value.code == code, said
        return said.out + said.err


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(VARIABLE, KEY)
    for name in (
        "TAOTOKEN_BASE_URL",
        "OPENAI_BASE_URL",
        "CODEX_HOME",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    return Told(monkeypatch, capsys)


def experiment(folder: Path, base_url: str = "https://gw.example/api") -> Path:
    return write_experiment(folder, gateway=GATEWAY.format(base_url=base_url))


def everything(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


def test_all_files(told: Told, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = told("clients", "write", experiment(tmp_path), "--out", out, "--small-model", "tiny")
    settings = json.loads((out / ".claude/settings.json").read_text())
    assert settings == {
        "apiKeyHelper": f"printenv {VARIABLE}",
        "env": {
            "ANTHROPIC_BASE_URL": "https://gw.example/api",
            "ANTHROPIC_AUTH_TOKEN": "",
            "ANTHROPIC_API_KEY": "",
            "ANTHROPIC_MODEL": "sim-small",
            "ANTHROPIC_SMALL_FAST_MODEL": "tiny",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "tiny",
        },
    }
    config = (out / ".codex/config.toml").read_text()
    assert tomllib.loads(config) == {
        "model": "sim-small",
        "model_provider": "gateway",
        "model_providers": {
            "gateway": {
                "name": "gw.example",
                "base_url": "https://gw.example/api/v1",
                "env_key": VARIABLE,
                "wire_api": "responses",
            }
        },
    }
    claude, codex = (json.loads((out / f"cc-switch/{app}.json").read_text()) for app in ("claude", "codex"))
    assert claude["settingsConfig"] == settings
    assert codex["settingsConfig"] == {"auth": {}, "config": config}
    assert "Claude Code calls https://gw.example/api/v1/messages" in said
    assert "Codex calls https://gw.example/api/v1/responses" in said
    assert "ccswitch://" not in said
    assert KEY not in said + everything(out)
    # What was written is what a check finds nothing wrong with.
    checked = told("clients", "check", tmp_path / "experiment.toml", "--home", out)
    assert "0 failures, 0 warnings, 2 ok." in checked


@pytest.mark.parametrize(
    ("app", "written"),
    [
        ("claude-code", {".claude/settings.json"}),
        ("codex", {".codex/config.toml"}),
        ("cc-switch", {"cc-switch/claude.json", "cc-switch/codex.json"}),
    ],
)
def test_files_of_one_client(told: Told, tmp_path: Path, app: str, written: set[str]) -> None:
    out = tmp_path / "out"
    told("clients", "write", experiment(tmp_path), "--app", app, "--out", out)
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert found == written | {"gateway.sh", "gateway.ps1"}


@pytest.mark.parametrize(
    ("version", "wire"), [("0.94.0", "chat"), ("v0.95", "responses"), ("1.0", "responses")]
)
def test_codex_of_a_version(told: Told, tmp_path: Path, version: str, wire: str) -> None:
    options = ("--app", "codex", "--codex-version", version, "--codex-base-url", "https://gw.example/openai")
    said = told("clients", "write", experiment(tmp_path), "--out", tmp_path, *options)
    provider = tomllib.loads((tmp_path / ".codex/config.toml").read_text())["model_providers"]["gateway"]
    assert (provider["wire_api"], provider["base_url"]) == (wire, "https://gw.example/openai")
    route = "chat/completions" if wire == "chat" else "responses"
    assert f"Codex calls https://gw.example/openai/{route}" in said


def test_claude_code_at_a_place_of_its_own(told: Told, tmp_path: Path) -> None:
    options = ("--app", "claude-code", "--claude-base-url", "https://gw.example/anthropic/v1/")
    said = told("clients", "write", experiment(tmp_path), "--out", tmp_path, *options)
    env = json.loads((tmp_path / ".claude/settings.json").read_text())["env"]
    assert env["ANTHROPIC_BASE_URL"] == "https://gw.example/anthropic"
    assert "Claude Code calls https://gw.example/anthropic/v1/messages" in said


def test_import_links_are_printed_only_when_asked_for(told: Told, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = told("clients", "write", experiment(tmp_path), "--app", "cc-switch", "--out", out, "--show-key")
    links = [line for line in said.splitlines() if line.startswith("ccswitch://v1/import?")]
    fields = [{name: value[0] for name, value in parse_qs(urlsplit(link).query).items()} for link in links]
    same: dict[str, Any] = {"resource": "provider", "name": "gw.example", "apiKey": KEY, "model": "sim-small"}
    assert fields == [
        same | {"app": "claude", "endpoint": "https://gw.example/api"},
        same | {"app": "codex", "endpoint": "https://gw.example/api/v1"},
    ]
    assert KEY not in everything(out)


def test_nothing_is_overwritten_unless_forced(told: Told, tmp_path: Path) -> None:
    path = tmp_path / "out" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"mine": 1}')
    write = ("clients", "write", experiment(tmp_path), "--out", tmp_path / "out")
    assert f"{path}: there already" in told(*write, code=2)
    assert (path.read_text(), [p.name for p in (tmp_path / "out").iterdir()]) == ('{"mine": 1}', [".claude"])
    told(*write, "--force")
    assert "apiKeyHelper" in path.read_text()
    assert path.with_name("settings.json.bak").read_text() == '{"mine": 1}'
    # The same again changes nothing, so it needs no force.
    told(*write)


def test_what_was_kept_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("mine")
    for content in ("first", "first", "second", "third"):
        write_files({path.name: content}, folder=tmp_path, force=True)
    kept = {found.name: found.read_text() for found in tmp_path.iterdir()}
    # The second time nothing is replaced, so nothing is kept.
    assert kept == {
        "settings.json": "third",
        "settings.json.bak": "mine",
        "settings.json.bak1": "first",
        "settings.json.bak2": "second",
    }


def test_all_or_nothing_also_where_a_folder_cannot_be_made(told: Told, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "cc-switch").write_text("a file")
    (out / "gateway.sh").write_text("mine")
    write = ("clients", "write", experiment(tmp_path), "--out", out, "--force")
    assert f"{out}: cannot be written" in told(*write, code=2)
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "cc-switch": "a file",
        "gateway.sh": "mine",
    }


def test_a_link_and_a_mode_stay_and_old_bytes_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "settings.json"
    real.write_bytes(b"\xff")
    real.chmod(0o640)
    link.symlink_to(real.name)
    with pytest.raises(InputError, match=r"settings\.json: there already"):
        write_files({link.name: "new"}, folder=tmp_path, force=False)
    write_files({link.name: "new"}, folder=tmp_path, force=True)
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, "new", 0o640)
    assert {path.name for path in tmp_path.iterdir()} == {"real.json", "settings.json", "settings.json.bak"}
    assert (tmp_path / "settings.json.bak").read_bytes() == b"\xff"


@pytest.mark.parametrize(
    ("base_url", "options", "says"),
    [
        ("https://gw.example/api?utm_source=x", (), "goes on after '?'"),
        ("https://gw.example/api", ("--claude-base-url", "gw.example"), "is no address"),
        ("https://gw.example/api", ("--codex-version", "newest"), "is no version"),
        ("https://gw.example/api", ("--codex-base-url", 'http://x"y'), "is no address"),
        ("https://gw.example/api", ("--codex-base-url", "http://x$(y)/v1"), "is no address"),
        ("https://gw.example/api", ("--codex-base-url", "http://x/\n'y"), "is no address"),
        (
            "https://gw.example/api",
            ("--codex-base-url", "https://gw.example/v1/responses"),
            "ends in /responses",
        ),
    ],
)
def test_what_is_refused(
    told: Told, tmp_path: Path, base_url: str, options: tuple[str, ...], says: str
) -> None:
    out = tmp_path / "out"
    assert says in told("clients", "write", experiment(tmp_path, base_url), "--out", out, *options, code=2)
    assert not out.exists()


def test_without_an_experiment(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = ("clients", "write", "--out", tmp_path / "out")
    assert "No base URL" in told(*write, code=2)
    monkeypatch.setenv("TAOTOKEN_BASE_URL", "https://gw.example/api")
    assert "No model" in told(*write, code=2)
    told(*write, "--model", "m", "--app", "codex")
    assert 'env_key = "TAOTOKEN_API_KEY"' in (tmp_path / "out/.codex/config.toml").read_text()
    assert "simulated gateway" in told(
        "clients", "write", write_experiment(tmp_path), "--out", tmp_path, code=2
    )


def test_shell_lines_set_what_they_say(told: Told, tmp_path: Path) -> None:
    """Read by a real shell; a URL cannot break out of its quotes."""
    url = "https://gw.example/a'$(touch${IFS}broken)"
    told("clients", "write", experiment(tmp_path, url), "--app", "codex", "--out", tmp_path)
    script = (
        f'. ./gateway.sh; printf "%s %s %s" "$TAOTOKEN_BASE_URL" "${VARIABLE}" "${{OPENAI_API_KEY-gone}}"'
    )
    environment = {VARIABLE: KEY, "OPENAI_API_KEY": "left"}
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{url} {KEY} gone"
    assert not (tmp_path / "broken").exists()
    assert (
        "$env:TAOTOKEN_BASE_URL = 'https://gw.example/a''$(touch${IFS}broken)'"
        in (tmp_path / "gateway.ps1").read_text()
    )
