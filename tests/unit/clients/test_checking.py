"""Files of Claude Code and Codex that exist, wrong in one way each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from paretoken.clients.checking import check_clients

KEY = "sk-marked-8e01c7d2f4"
URL = "https://gw.example/api"
LEVELS = ("ok", "warning", "failure")
USER, PROJECT, LOCAL = (
    "home/.claude/settings.json",
    "project/.claude/settings.json",
    "project/.claude/settings.local.json",
)
CODEX, PROJECT_CODEX = "home/.codex/config.toml", "project/.codex/config.toml"


def provider(lines: str = "", top: str = 'model_provider = "gw"') -> str:
    given = {line.partition(" =")[0] for line in lines.splitlines()}
    usual = {"base_url": f'"{URL}/v1"', "env_key": '"GW_KEY"', "wire_api": '"responses"'}
    rest = "\n".join(f"{name} = {value}" for name, value in usual.items() if name not in given)
    return f"{top}\n[model_providers.gw]\n{lines}\n{rest}\n"


def env(**values: str) -> str:
    return '{"env": {\n' + ",\n".join(f'"{name}": "{value}"' for name, value in values.items()) + "}}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files and variables of the shell, and what must be said about them."""

    files: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    level: str
    says: tuple[str, ...]


CASES: Mapping[str, Case] = {
    "broken JSON": Case(
        files={USER: '{"env": {\n"A": "b"\n"C": 1}}'},
        level="failure",
        says=("settings.json:3: no JSON", "Correct it"),
    ),
    "JSON that is no object": Case(
        files={USER: "[]"},
        level="failure",
        says=("settings.json:1: an object",),
    ),
    "broken TOML": Case(
        files={CODEX: 'model = "m"\nx = "y\n'},
        level="failure",
        says=("config.toml:2: no TOML",),
    ),
    "TOML that ends too early": Case(
        files={CODEX: 'model = "m"\nx = ['},
        level="failure",
        says=("config.toml:2: no TOML",),
    ),
    "no UTF-8": Case(
        files={USER: "\udcff"},
        level="failure",
        says=("byte 0 is no UTF-8",),
    ),
    "Claude with /v1": Case(
        files={USER: env(ANTHROPIC_BASE_URL=f"{URL}/v1")},
        level="failure",
        says=(":2: https://gw.example/api/v1 ends in /v1", "Take /v1 off"),
    ),
    "Claude with a route": Case(
        files={USER: env(ANTHROPIC_BASE_URL=f"{URL}/v1/messages")},
        level="failure",
        says=("ends in /v1/messages", f"Set it to {URL}"),
    ),
    "Claude elsewhere": Case(
        files={USER: env(ANTHROPIC_BASE_URL="https://old.example")},
        level="warning",
        says=("https://old.example is another gateway than https://gw.example/api",),
    ),
    "a key in Claude's file": Case(
        files={USER: env(ANTHROPIC_AUTH_TOKEN="0123456789abcdef")},
        level="failure",
        says=(":2: ANTHROPIC_AUTH_TOKEN holds a key itself", "apiKeyHelper"),
    ),
    "the key under another name": Case(
        files={PROJECT: '{"note": "it is ' + KEY + '"}'},
        variables={"GW_KEY": KEY},
        level="failure",
        says=(":1: note holds a key itself",),
    ),
    "a reference that is none": Case(
        files={USER: env(ANTHROPIC_AUTH_TOKEN="${GW_KEY}")},
        level="failure",
        says=("is sent as it is written", "apiKeyHelper"),
    ),
    "a variable outside env": Case(
        files={USER: '{"ANTHROPIC_MODEL": "m"}'},
        level="failure",
        says=("ANTHROPIC_MODEL stands outside env",),
    ),
    "env is no object": Case(
        files={USER: '{"env": []}'},
        level="failure",
        says=("env is no object",),
    ),
    "a number for a text": Case(
        files={USER: '{"env": {"ANTHROPIC_MODEL": 5}}'},
        level="failure",
        says=("ANTHROPIC_MODEL is no text",),
    ),
    "a misspelt variable": Case(
        files={USER: env(ANTHROPIC_BASEURL=URL)},
        level="warning",
        says=("unknown key ANTHROPIC_BASEURL", "Did you mean ANTHROPIC_BASE_URL?"),
    ),
    "a project's file overrides": Case(
        files={USER: env(ANTHROPIC_MODEL="a"), PROJECT: env(ANTHROPIC_MODEL="b")},
        level="warning",
        says=("project/.claude/settings.json:2: ANTHROPIC_MODEL = b overrides a of", "project's file"),
    ),
    "a project's local file overrides": Case(
        files={PROJECT: env(ANTHROPIC_MODEL="a"), LOCAL: env(ANTHROPIC_MODEL="b")},
        level="warning",
        says=("settings.local.json:2: ANTHROPIC_MODEL = b overrides a",),
    ),
    "the shell says another URL": Case(
        files={USER: env(ANTHROPIC_BASE_URL=URL)},
        variables={"ANTHROPIC_BASE_URL": "https://old.example"},
        level="warning",
        says=("ANTHROPIC_BASE_URL in the shell (https://old.example)", "unset ANTHROPIC_BASE_URL"),
    ),
    "the shell has a key before the helper": Case(
        files={USER: '{"apiKeyHelper": "printenv GW_KEY"}'},
        variables={"ANTHROPIC_AUTH_TOKEN": KEY},
        level="warning",
        says=("(…d2f4) overrides the file's apiKeyHelper", "unset ANTHROPIC_AUTH_TOKEN"),
    ),
    "wire_api chat": Case(
        files={CODEX: provider('wire_api = "chat"')},
        level="failure",
        says=(":3: wire_api = 'chat' is refused since Codex 0.95", 'Set wire_api = "responses"'),
    ),
    "Codex with a route": Case(
        files={CODEX: provider(f'base_url = "{URL}/v1/responses"')},
        level="failure",
        says=("ends in /responses", f"Set it to {URL}/v1"),
    ),
    "Codex at Claude's address": Case(
        files={CODEX: provider('base_url = "https://gw.example/anthropic"')},
        level="failure",
        says=("is the address for Claude Code",),
    ),
    "Codex elsewhere": Case(
        files={CODEX: provider('base_url = "https://old.example/v1"')},
        level="warning",
        says=("another gateway than https://gw.example/api",),
    ),
    "Anthropic's variable for Codex": Case(
        files={CODEX: provider('env_key = "ANTHROPIC_AUTH_TOKEN"')},
        level="failure",
        says=("ANTHROPIC_AUTH_TOKEN is a variable of Claude Code",),
    ),
    "Anthropic's variables in Codex' file": Case(
        files={CODEX: provider() + "[shell_environment_policy.set]\nANTHROPIC_BASE_URL = 'x'\n"},
        level="failure",
        says=("ANTHROPIC_BASE_URL is a variable of Claude Code",),
    ),
    "a key in Codex' file": Case(
        files={CODEX: provider('experimental_bearer_token = "0123456789abcdef"')},
        level="failure",
        says=("experimental_bearer_token holds a key itself", "env_key"),
    ),
    "a key instead of a variable's name": Case(
        files={CODEX: provider(f'env_key = "{KEY}"')},
        level="failure",
        says=("env_key is no name of a variable",),
    ),
    "the variable is not set": Case(
        files={CODEX: provider('env_key = "NOT_SET_HERE"')},
        level="warning",
        says=("NOT_SET_HERE is not set",),
    ),
    "no such provider": Case(
        files={CODEX: provider(top='model_provider = "other"')},
        level="failure",
        says=("there is no [model_providers.other]",),
    ),
    "an unknown key": Case(
        files={CODEX: provider(top='model_provder = "gw"')},
        level="warning",
        says=(":1: unknown key model_provder", "Did you mean model_provider?"),
    ),
    "a provider's unknown key": Case(
        files={CODEX: provider('enviroment_key = "X"')},
        level="warning",
        says=("unknown key enviroment_key", "without a word"),
    ),
    "a provider in a project's file": Case(
        files={PROJECT_CODEX: provider()},
        level="warning",
        says=("model_providers is ignored in a project's file", "~/.codex/config.toml"),
    ),
    "OPENAI_BASE_URL beside Codex": Case(
        files={CODEX: provider()},
        variables={"OPENAI_BASE_URL": "https://old.example/v1"},
        level="warning",
        says=("OPENAI_BASE_URL (https://old.example/v1) is set, and Codex ignores it",),
    ),
    "a whole number without end": Case(
        files={USER: '{"x": ' + "9" * 5000 + "}"},
        level="failure",
        says=("settings.json: it holds a number of too many digits",),
    ),
    "nested without end": Case(
        files={USER: "[" * 100_000},
        level="failure",
        says=("settings.json: it is nested too deeply",),
    ),
    "providers are no table": Case(
        files={CODEX: "model_providers = 5"},
        level="failure",
        says=("config.toml:1: model_providers is no table",),
    ),
    "a provider is no table": Case(
        files={CODEX: "[model_providers]\ngw = 5"},
        level="failure",
        says=("config.toml:2: the entry of model_providers is no table",),
    ),
    "the provider's name is no text": Case(
        files={CODEX: "model_provider = [1]"},
        level="failure",
        says=("config.toml:1: model_provider is no text",),
    ),
    "an address that is no text": Case(
        files={CODEX: provider("base_url = 5")},
        level="failure",
        says=("base_url is no text",),
    ),
    "a helper that is no text": Case(
        files={USER: '{"apiKeyHelper": ["printenv", "GW_KEY"]}'},
        level="failure",
        says=("settings.json:1: apiKeyHelper is no text",),
    ),
    "a key that is printed": Case(
        files={USER: '{"apiKeyHelper": "echo 0123456789abcdef"}'},
        level="failure",
        says=(":1: apiKeyHelper holds a key itself",),
    ),
    "a key among a helper's words": Case(
        files={USER: '{"apiKeyHelper": "my-helper 0123456789abcdef0123456789abcdef"}'},
        level="failure",
        says=(":1: apiKeyHelper holds a key itself",),
    ),
    "helpers that fetch": Case(
        files={
            USER: '{"apiKeyHelper": "printf %s \\"$GW_KEY\\""}',
            PROJECT: '{"apiKeyHelper": "op read op://team/0123456789abcdef0123456789abcdef/field"}',
        },
        level="ok",
        says=("as it should be",),
    ),
    "all well": Case(
        files={USER: env(ANTHROPIC_BASE_URL=URL), CODEX: provider()},
        variables={"OPENAI_BASE_URL": f"{URL}/v1"},
        level="ok",
        says=("as it should be",),
    ),
    "nothing there": Case(
        files={},
        level="ok",
        says=("no files of Claude Code or Codex",),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_files(case: Case, tmp_path: Path) -> None:
    for name, text in case.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
    found = check_clients(
        home=tmp_path / "home",
        project=tmp_path / "project",
        base_url=URL,
        environment={"GW_KEY": "set"} | case.variables,
    )
    said = [f"{one.seen} -> {one.do}" for one in found if one.level == case.level]
    assert any(all(part in line for part in case.says) for line in said), found
    assert max((one.level for one in found), key=LEVELS.index) == case.level
    assert KEY not in str(found) and "0123456789abcdef" not in str(found)


@pytest.mark.parametrize(
    "pasted",
    [
        "AIzaSyD3m0K3yABCDEFGHIJKLMNOPQRSTUVWX1",
        "9f8e7d6c5b4a39281706f5e4d3c2b1a0",
        "9f8e7d6c-5b4a-3928-1706-f5e4d3c2b1a0",
        "AKIA0123456789ABCDEF",
        "sk-abcdefghijklmnopqr",
    ],
)
def test_a_key_in_the_wrong_place_is_not_shown(tmp_path: Path, pasted: str) -> None:
    def said_of(name: str, text: str, **variables: str) -> str:
        (path := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        home, project = tmp_path / "home", tmp_path / "project"
        found = check_clients(home=home, project=project, base_url=URL, environment=variables)
        assert max((one.level for one in found), key=LEVELS.index) != "ok"
        return str(found)

    value = f'"{pasted}"'
    said = [
        said_of(CODEX, provider(f"{name} = {value}")) for name in ("env_key", "wire_api", "base_url", value)
    ]
    said += [said_of(CODEX, provider(top=f"{name} = {value}")) for name in ("model_provider", value)]
    said += [said_of(CODEX, f'"ANTHROPIC_{pasted}" = 1\n{provider()}')]
    said += [
        said_of(CODEX, f"[model_providers]\n{value} = 5"),
        said_of(CODEX, f'env_key = "ANTHROPIC_{pasted}"'),
    ]
    said += [said_of(USER, f'{{"env": {{{value}: 5}}, {value}: {value}}}')]
    said += [said_of(USER, env(ANTHROPIC_BASE_URL=pasted), ANTHROPIC_BASE_URL=f"https://{pasted}@x.example")]
    said += [said_of(USER, env(ANTHROPIC_MODEL=pasted), ANTHROPIC_MODEL="m")]
    assert not [line for line in said if pasted in line]


def test_codex_home_counts(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(provider('wire_api = "chat"'))
    found = check_clients(
        home=tmp_path / "home",
        project=tmp_path / "p",
        base_url=None,
        environment={"CODEX_HOME": str(tmp_path), "GW_KEY": "x"},
    )
    assert [one.level for one in found] == ["failure"]
