"""The checklist on prepared situations: each says what fails, what it saw, and what to do; nothing else fails."""

import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paretoken.cli import main
from paretoken.doctor.checklist import checklist
from paretoken.doctor.requests import MOST_REQUESTS
from paretoken.findings import Finding
from paretoken.settings import HOME
from tests.experiments import write_experiment, write_tasks
from tests.integration.odd_gateways import PAGE, Odd, OddGateways, error, odd_gateways

KEY = "sk-marked-3f9c27d1b8"
OTHER = "sk-another-55aa0e99c1"
VARIABLE = "TAOTOKEN_API_KEY"
NOTHING_THERE = "http://127.0.0.1:9/api"

Doctor = Callable[..., list[Finding]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A situation, and what must be said about it."""

    what: str
    says: tuple[str, ...]
    """In what was seen, or in what to do."""
    level: str = "failure"
    odd: Odd = Odd()  # noqa: RUF009 - it is frozen
    url: str = "{place}/api"
    """The experiment's base URL, or the environment's where it is one of `variables`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    gateway: str = ""
    """More lines of [gateway]."""
    model: str = "sim-small"
    files: Mapping[str, str] = field(default_factory=dict)
    """Below the current folder, or below `home`."""
    timeout_s: float = 15
    more_failures: tuple[str, ...] = ()


CASES = {
    "key missing": Case(
        variables={VARIABLE: ""}, what="key", says=(f"No key in {VARIABLE}", f"export {VARIABLE}")
    ),
    "key with Bearer": Case(
        variables={VARIABLE: f"Bearer {KEY}"},
        what="key",
        says=("starts with 'Bearer '", "Give the key alone"),
    ),
    "key with a newline": Case(variables={VARIABLE: f"{KEY}\n"}, what="key", says=("line ends", "Remove")),
    "key with quotes": Case(
        variables={VARIABLE: f'"{KEY}"'}, what="key", says=("quotes around it", "Remove")
    ),
    "no base URL": Case(url="", what="base URL", says=("none is named", "TAOTOKEN_BASE_URL")),
    "base URL with UTM marks": Case(
        url="{place}/api?utm_source=mail", what="base URL", says=("after '?'", "Set it to {place}/api ")
    ),
    "base URL with the route": Case(
        url="{place}/api/chat/completions",
        what="base URL",
        says=("ends in /chat/completions", "Set it to {place}/api "),
    ),
    "base URL with /v1 twice": Case(
        odd=Odd(at="/api/v1"),
        url="{place}/api/v1/v1",
        what="base URL",
        says=("names /v1 twice", "Set it to {place}/api/v1 "),
    ),
    "a /v1 too many": Case(
        url="{place}/api/v1", what="call", says=("HTTP 404: no route",), more_failures=("base URL",)
    ),
    "a /v1 too many, what to do": Case(
        url="{place}/api/v1",
        what="base URL",
        says=("answers below {place}/api, not below", "Set base_url to {place}/api"),
        more_failures=("call",),
    ),
    "a /v1 missing": Case(
        odd=Odd(at="/api/v1"),
        what="base URL",
        says=("answers below {place}/api/v1, not", "Set base_url to {place}/api/v1"),
        more_failures=("call",),
    ),
    "an /api missing": Case(
        url="{place}", what="base URL", says=("Set base_url to {place}/api",), more_failures=("call",)
    ),
    "/api/v1 missing": Case(
        odd=Odd(at="/api/v1"),
        url="{place}",
        what="base URL",
        says=("Set base_url to {place}/api/v1",),
        more_failures=("call",),
    ),
    "nothing at any path": Case(
        odd=Odd(at="/elsewhere", responses_at=None, messages_at=None),
        what="base URL",
        says=("nothing answers below {place}/api, nor below {place}/api/v1, {place}, {place}/v1", "own page"),
        more_failures=("call",),
    ),
    "wrong host": Case(
        url=NOTHING_THERE, what="call", says=("no connection to 127.0.0.1:9", "Check host and port")
    ),
    "401": Case(
        odd=Odd(status=401, says=error("Incorrect API key provided: KEY")),
        what="call",
        says=("HTTP 401", "does not know this key"),
    ),
    "402": Case(odd=Odd(status=402, says=error("Pay first")), what="call", says=("HTTP 402: Pay", "pay in")),
    "403": Case(
        odd=Odd(status=403, says=error("Not you")), what="call", says=("HTTP 403: Not", "give it access")
    ),
    "404 for the model": Case(
        odd=Odd(status=404, says=error("The model does not exist", "model_not_found"), models=None),
        what="call",
        says=("HTTP 404: The model", "Check the model's name"),
    ),
    "429": Case(
        odd=Odd(status=429, says=error("Slow down"), headers={"retry-after": "7"}),
        what="call",
        says=("HTTP 429: Slow down", "asks to wait 7 s", "requests_per_minute"),
    ),
    "429 for the quota": Case(
        odd=Odd(status=429, says=error("You exceeded it", "insufficient_quota")),
        what="call",
        says=("HTTP 429", "is used up: raise it"),
    ),
    "500": Case(odd=Odd(status=500, says=error("Oh")), what="call", says=("HTTP 500", "fault of its own")),
    "redirect": Case(
        odd=Odd(status=301, says={}, headers={"location": "https://other.example/api"}),
        what="call",
        says=("redirects to https://other.example/api", "put the address"),
    ),
    "no answer in time": Case(
        odd=Odd(silent=True), timeout_s=1, what="call", says=("within 1 s", "too slow or overloaded")
    ),
    "a web page": Case(
        odd=Odd(says=PAGE, everywhere=True, responses_at=None, messages_at=None),
        what="call",
        says=("HTTP 200 with an HTML page 'Welcome'", "no gateway's interface"),
        more_failures=("base URL",),
    ),
    "a web page about an error": Case(
        odd=Odd(status=502, says=PAGE, everywhere=True),
        what="call",
        says=("HTTP 502: an HTML page 'Welcome'", "fault of its own"),
    ),
    "the key echoed": Case(
        odd=Odd(status=400, says=error("Bad header Bearer KEY")),
        what="call",
        says=("HTTP 400: Bad", "read what"),
    ),
    "model missing": Case(
        odd=Odd(models=("sim-large", "sim-small-2", "other"), status=404, says=error("no such model")),
        what="models",
        says=("'sim-small' is not in the gateway's list of 3", "Nearest names: sim-small-2, sim-large"),
        more_failures=("call",),
    ),
    "model of another spelling": Case(
        model="OTHER-model",
        what="models",
        level="warning",
        says=("though it answers", "Nearest names: vendor/Other-Model"),
    ),
    "no list of models": Case(
        odd=Odd(models=None), what="models", level="warning", says=("no list: HTTP 404",)
    ),
    "no usage": Case(odd=Odd(usage=False), what="usage", says=("reports no usage", "cost stay unknown")),
    "no usage in streams": Case(
        odd=Odd(stream_usage=False), what="stream", level="warning", says=("without usage", "stream = false")
    ),
    "no usage in streams that are wanted": Case(
        odd=Odd(stream_usage=False), gateway="stream = true", what="stream", says=("Set stream = false",)
    ),
    "chat completions alone": Case(
        odd=Odd(responses_at=None, messages_at=None),
        what="Codex",
        level="warning",
        says=(
            "neither is served: {place}/api/responses (HTTP 404",
            "{place}/api/v1/responses (HTTP 404",
            "Codex cannot use this gateway",
        ),
    ),
    "no Anthropic messages": Case(
        odd=Odd(messages_at=None),
        what="Claude Code",
        level="warning",
        says=("neither is served: {place}/api/v1/messages (HTTP 404", "{place}/api/anthropic/v1/messages"),
    ),
    "Anthropic messages, and refused": Case(
        odd=Odd(strict=True),
        what="Claude Code",
        level="warning",
        says=(
            "{place}/api/v1/messages is there and refuses a request like Claude Code's (HTTP 422",
            "another model",
        ),
    ),
    "Anthropic messages for a model that Claude Code knows": Case(
        odd=Odd(strict=True, models=("claude-x",)),
        model="claude-x",
        what="Claude Code",
        level="ok",
        says=("{place}/api/v1/messages answers (HTTP 200)",),
    ),
    "Anthropic messages at a place of their own": Case(
        odd=Odd(messages_at="/api/anthropic/v1/messages"),
        what="Claude Code",
        level="ok",
        says=("ANTHROPIC_BASE_URL = {place}/api/anthropic",),
    ),
    "OPENAI_API_KEY of another": Case(
        variables={"OPENAI_API_KEY": OTHER},
        what="environment",
        level="warning",
        says=("OPENAI_API_KEY (…99c1) is another key than TAOTOKEN_API_KEY (…d1b8)", "unset OPENAI_API_KEY"),
    ),
    "OPENAI_BASE_URL of another": Case(
        variables={"OPENAI_BASE_URL": "https://user:secret@other.example/v1?key=hidden"},
        what="environment",
        level="warning",
        says=("OPENAI_BASE_URL (https://other.example/v1?…) is another gateway", "unset OPENAI_BASE_URL"),
    ),
    "ANTHROPIC_BASE_URL with /v1": Case(
        variables={"ANTHROPIC_BASE_URL": "{place}/api/v1"},
        what="environment",
        level="warning",
        says=("ends in /v1", "Take /v1 off"),
    ),
    "two ANTHROPIC keys": Case(
        variables={"ANTHROPIC_API_KEY": OTHER, "ANTHROPIC_AUTH_TOKEN": KEY},
        what="environment",
        level="warning",
        says=("are both set, and differ", "unset ANTHROPIC_API_KEY"),
    ),
    "TAOTOKEN_BASE_URL of another": Case(
        variables={"TAOTOKEN_BASE_URL": "{place}/api"},
        url="https://written.example/api",
        what="environment",
        level="warning",
        says=("overrides the experiment's base_url (https://written.example/api)", "unset TAOTOKEN_BASE_URL"),
    ),
    "a project's settings override": Case(
        files={
            "home/.claude/settings.json": '{"env": {"ANTHROPIC_BASE_URL": "{place}/api"}}',
            ".claude/settings.json": '{"env": {\n"ANTHROPIC_BASE_URL": "https://old.example"}}',
        },
        what="Claude Code",
        level="warning",
        says=(
            "settings.json:2: ANTHROPIC_BASE_URL = https://old.example overrides {place}/api",
            "project's file",
        ),
    ),
    "a client's file that is broken": Case(
        files={"home/.codex/config.toml": 'model = "x"\nmodel = \n'},
        what="Codex",
        level="warning",
        says=("config.toml:2: no TOML", "Correct it"),
    ),
    "an experiment that cannot run": Case(
        gateway="retries = 2", what="experiment", says=("gateway.retries: unknown key", "Correct it first")
    ),
}
NOT_ASKED = {"key missing", "key with Bearer", "key with a newline", "key with quotes", "no base URL"}


@pytest.fixture(scope="module")
def gateways() -> Iterator[OddGateways]:
    with odd_gateways() as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a home of its own and nothing of the developer's in the environment."""
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "ANTHROPIC_", "TAOTOKEN_", "PARETOKEN_DA", "PARETOKEN_BR", "CODEX_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(HOME, str(tmp_path / "data"))
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.chdir(tmp_path)
    write_tasks(tmp_path, 20)
    return tmp_path


def experiment(folder: Path, *, url: str, model: str = "sim-small", gateway: str = "") -> Path:
    path = folder / "my.toml"
    base_url = f'base_url = "{url}"' if url else ""
    path.write_text(
        f'tasks = "tasks.jsonl"\n[gateway]\n{base_url}\n{gateway}\n[model]\nname = "{model}"\n'
        f'[prices."{model}"]\ninput_usd_per_1m = 1\noutput_usd_per_1m = 1\n'
        '[[strategies]]\nname = "baseline"\nkind = "single"\n'
    )
    return path


@pytest.fixture(autouse=True)
def no_servers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of database and broker is the matter of tests of its own."""
    if "case" in request.fixturenames:
        monkeypatch.setattr("paretoken.doctor.servers.check_servers", lambda environment: [])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_situation(
    case: Case,
    folder: Path,
    gateways: OddGateways,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    place = gateways.add(case.odd)
    for name, value in case.variables.items():
        monkeypatch.setenv(name, value.replace("{place}", place))
    for name, text in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("{place}", place))
    url = case.url.replace("{place}", place)
    path = experiment(folder, url=url, model=case.model, gateway=case.gateway) if url else None
    before = len(gateways.requests)
    found = checklist(path, timeout_s=case.timeout_s)
    made = len(gateways.requests) - before
    assert made <= MOST_REQUESTS
    assert (made == 0) == (request.node.callspec.id in NOT_ASKED or url == NOTHING_THERE)
    about = [f"{one.seen} -> {one.do}" for one in found if (one.what, one.level) == (case.what, case.level)]
    assert any(all(part.replace("{place}", place) in line for part in case.says) for line in about), found
    failed = {one.what for one in found if one.level == "failure"}
    assert failed == {*case.more_failures, *([case.what] if case.level == "failure" else [])}
    assert all(bool(one.do) == (one.level != "ok") for one in found)
    assert not [one for one in found if KEY in f"{one}" or OTHER in f"{one}" or "secret" in f"{one}"]


def test_a_gateway_where_all_is_well(
    folder: Path, gateways: OddGateways, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text of the model is shown shortened, and no control character of it reaches the terminal."""
    place = gateways.add(Odd(text="ready\x1b[31m\n" + "x" * 200))
    path = experiment(folder, url=f"{place}/api")
    before = len(gateways.requests)
    code, shown = run(monkeypatch, capsys, "doctor", str(path))
    assert code == 0
    lines = {line.split(None, 2)[1]: line for line in shown.splitlines() if line.startswith("ok")}
    assert "TAOTOKEN_API_KEY is set (…d1b8)" in lines["key"]
    assert "'ready\\x1b[31m xxx" in lines["call"] and "x…'" in lines["call"] and "\x1b" not in shown
    assert "14 tokens in, 2 out, 16 in all" in lines["usage"]
    assert f"ANTHROPIC_BASE_URL = {place}/api" in lines["Claude"]
    assert f"base_url = {place}/api/v1" in lines["Codex"]
    assert "PostgreSQL 18" in lines["servers"]
    assert shown.splitlines()[-1].startswith("0 failures, 0 warnings")
    # Models, a call, a stream, and what Claude Code and Codex would call.
    assert gateways.requests[before:] == [
        ("GET", "/api/models"),
        ("POST", "/api/chat/completions"),
        ("POST", "/api/chat/completions"),
        ("POST", "/api/v1/messages"),
        ("POST", "/api/responses"),
        ("POST", "/api/v1/responses"),
    ]


def test_without_a_model_the_list_alone_is_asked_for(
    folder: Path, gateways: OddGateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = gateways.add(Odd())
    before = len(gateways.requests)
    monkeypatch.setenv("TAOTOKEN_BASE_URL", f"{place}/api")
    said = {one.what: f"{one.level}: {one.seen}" for one in checklist(None)}
    assert said["models"] == "warning: the gateway lists 3 models: sim-small, sim-large, vendor/Other-Model"
    assert gateways.requests[before:] == [("GET", "/api/models")]
    monkeypatch.setenv("TAOTOKEN_BASE_URL", place)
    found = [one for one in checklist(None) if one.level == "failure"]
    assert [one.what for one in found] == ["call", "base URL"]
    assert found[1].do == f"Set base_url to {place}/api"


def test_a_simulated_gateway_needs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    found = checklist(write_experiment(folder))
    assert [one for one in found if one.level != "ok"] == []
    assert "gateway" in {one.what for one in found}


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[Any, str]:
    """Exit code and output of a command."""
    monkeypatch.setattr(sys, "argv", ["paretoken", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return ended.value.code, said.out + said.err


def test_for_scripts_and_offline(
    folder: Path, gateways: OddGateways, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = experiment(folder, url=f"{gateways.add(Odd())}/api")
    monkeypatch.delenv(VARIABLE)
    before = len(gateways.requests)
    code, shown = run(monkeypatch, capsys, "doctor", str(path), "--offline", "--json")
    said = json.loads(shown)
    assert (code, said["ok"], len(gateways.requests)) == (0, True, before)
    assert [check["what"] for check in said["checks"] if check["level"] == "warning"] == ["key"]
    code, shown = run(monkeypatch, capsys, "doctor", str(path), "--json")
    assert (code, json.loads(shown)["ok"]) == (1, False)


def test_a_certificate_that_nobody_signed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if shutil.which("openssl") is None and "CI" not in os.environ:
        pytest.skip("needs the openssl program")
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    command = [
        *make.split(),
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    monkeypatch.setattr("paretoken.doctor.servers.check_servers", lambda environment: [])
    with odd_gateways() as served:
        served.socket = context.wrap_socket(served.socket, server_side=True)
        place = served.add(Odd()).replace("http:", "https:")
        found = checklist(experiment(folder, url=f"{place}/api"))
        assert served.requests == []
    [failed] = [one for one in found if one.level == "failure"]
    assert failed.what == "call"
    assert "certificate of 127.0.0.1 is not valid" in failed.seen
    assert "SSL_CERT_FILE" in failed.do


def test_an_openai_package_that_is_too_old(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that needs it is even imported, so that an old one cannot end in a traceback."""
    for name, number in (("openai", "1.2.0"), ("redis", "99.0")):
        made = folder / "site" / f"{name}-{number}.dist-info"
        made.mkdir(parents=True)
        (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    monkeypatch.syspath_prepend(folder / "site")
    found = checklist(experiment(folder, url=NOTHING_THERE))
    assert [one.what for one in found if one.level == "failure"] == ["packages"]
    [failed] = [one for one in found if one.level == "failure"]
    assert "openai 1.2.0 is installed; this version needs <4,>=3.50" in failed.seen
    assert 'pip install "openai' in failed.do
    assert not {"call", "servers", "database"} & {one.what for one in found}
