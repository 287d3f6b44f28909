"""Bad input ends in one clear line and exit code 2, and nothing is written. What failed otherwise ends in 1."""

import json
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from paretoken.settings import BROKER_URL, DATABASE_URL, HOME
from tests.acceptance.conftest import CommandLine
from tests.experiments import GATEWAY, task, write_experiment

EXAMPLE = Path(__file__).parents[2] / "examples" / "arena"
KEY = "TEST_GATEWAY_KEY"
SECRET = "sk-secret-0123456789"
REAL_GATEWAY = GATEWAY.format(base_url="http://127.0.0.1:1/v1")
NO_SERVER = {DATABASE_URL: "postgresql://u:secret@127.0.0.1:1/x", BROKER_URL: "redis://:secret@127.0.0.1:1/0"}

Prepare = Callable[[Path], None]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command, the folder it runs in, and what its one line must say."""

    says: tuple[str, ...]
    prepare: Prepare = lambda folder: None
    command: tuple[str, ...] = ("run", "experiment.toml")
    variables: dict[str, str] = field(default_factory=dict)


def experiment(old: str = "", new: str = "", **changes: str) -> Prepare:
    """A good experiment with one thing changed."""

    def prepare(folder: Path) -> None:
        path = write_experiment(folder, **changes)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return prepare


def tasks(*lines: str) -> Prepare:
    """A good experiment with these lines after its first two tasks."""

    def prepare(folder: Path) -> None:
        write_experiment(folder)
        good = [json.dumps(task(number)) for number in (1, 2)]
        (folder / "tasks.jsonl").write_text("\n".join([*good, *lines]) + "\n")

    return prepare


def with_file(content: str) -> Prepare:
    def prepare(folder: Path) -> None:
        tasks(json.dumps({"id": "f", "goal": "Read it.", "files": ["data.csv"]}))(folder)
        (folder / "data.csv").write_text(content)

    return prepare


def directory(name: str) -> Prepare:
    return lambda folder: (folder / name).mkdir()


def binary(folder: Path) -> None:
    (folder / "experiment.toml").write_bytes(b"run_id = '\xff\xfe'")


def a_file_in_the_way(folder: Path) -> None:
    write_experiment(folder)
    (folder / "file").write_text("in the way")


CASES = {
    "experiment missing": Case(says=("experiment.toml: cannot be read", "No such file")),
    "experiment is a folder": Case(
        prepare=directory("experiment.toml"), says=("experiment.toml: cannot be read", "directory")
    ),
    "experiment no UTF-8": Case(prepare=binary, says=("experiment.toml", "UTF-8")),
    "wrong TOML": Case(
        prepare=experiment('run_id = "test"', 'run_id = "test'), says=("experiment.toml: not TOML", "line 1")
    ),
    "unknown key": Case(
        prepare=experiment("timeout_s", "timeout", gateway=REAL_GATEWAY),
        says=("gateway.timeout: unknown key", "Did you mean 'timeout_s'?"),
    ),
    "unknown key at the top": Case(
        prepare=experiment(top="repeat = 2"), says=("repeat: unknown key", "Did you mean 'repeats'?")
    ),
    "wrong value": Case(
        prepare=experiment("temperature = 0.0", "temperature = 3"), says=("model.temperature", "3")
    ),
    "unknown strategy": Case(
        prepare=experiment('kind = "single"', 'kind = "singel"'),
        says=("strategies.1", "unknown strategy kind 'singel'", "did you mean 'single'?"),
    ),
    "unknown parameter of a strategy": Case(
        prepare=experiment('kind = "single"', 'kind = "self_consistency"\nkk = 3'),
        says=("strategies.1", "'kk'"),
    ),
    "two strategies of one name": Case(
        prepare=experiment(more='[[strategies]]\nname = "baseline"\nkind = "single"\n'),
        says=("a second strategy named 'baseline'",),
    ),
    "bad run id": Case(
        prepare=experiment(), command=("run", "experiment.toml", "--run-id", "../x"), says=("run id '../x'",)
    ),
    "negative threshold": Case(
        prepare=experiment(more="[analysis]\nthreshold_elo_per_1k = -1.0\n"), says=("threshold", "-1.0")
    ),
    "task file missing": Case(
        prepare=experiment('"tasks.jsonl"', '"none.jsonl"'), says=("none.jsonl: cannot be read",)
    ),
    "task file a folder": Case(
        prepare=lambda folder: (experiment('"tasks.jsonl"', '"data"')(folder), directory("data")(folder))[1],
        says=("data: cannot be read", "directory"),
    ),
    "task file empty": Case(
        prepare=lambda folder: (experiment()(folder), (folder / "tasks.jsonl").write_text("\n"))[0],
        says=("tasks.jsonl: holds no task",),
    ),
    "duplicate task": Case(prepare=tasks(json.dumps(task(1))), says=("tasks.jsonl:3", "'t00001'", "line 1")),
    "broken task line": Case(prepare=tasks('{"id": "t3", "goal":'), says=("tasks.jsonl:3: not JSON",)),
    "task without a goal": Case(prepare=tasks('{"id": "t3"}'), says=("tasks.jsonl:3: goal",)),
    "unknown key of a task": Case(
        prepare=tasks('{"id": "t3", "goal": "?", "gaol": 1}'),
        says=("tasks.jsonl:3: gaol", "Allowed: id, goal"),
    ),
    "unknown check": Case(
        prepare=tasks('{"id": "t3", "goal": "?", "checks": [{"kind": "numbr", "value": 1}]}'),
        says=("tasks.jsonl:3", "'numbr'", "'number'"),
    ),
    "goal with a database URL": Case(
        prepare=tasks('{"id": "t3", "goal": "Count the rows in postgresql://u:p@db/x."}'),
        says=("tasks.jsonl:3", "goal names a database URL"),
    ),
    "file with a database URL": Case(
        prepare=with_file("host\nmysql://root@10.0.0.1/x\n"),
        says=("tasks.jsonl:3", "'data.csv' names a database URL"),
    ),
    "file outside the folder": Case(
        prepare=tasks('{"id": "t3", "goal": "?", "files": ["../../etc/passwd"]}'),
        says=("tasks.jsonl:3", "outside"),
    ),
    "no key": Case(prepare=experiment(gateway=REAL_GATEWAY), says=(f"No key in {KEY}", f"export {KEY}=")),
    "key with a prefix": Case(
        prepare=experiment(gateway=REAL_GATEWAY),
        variables={KEY: f"Bearer {SECRET}"},
        says=(KEY, "'Bearer '"),
    ),
    "key with quotes": Case(
        prepare=experiment(gateway=REAL_GATEWAY), variables={KEY: f"'{SECRET}'"}, says=(KEY, "quotes")
    ),
    "placeholders": Case(
        command=("run", str(EXAMPLE / "taotoken.toml")),
        variables={"TAOTOKEN_API_KEY": SECRET},
        says=("taotoken.toml: model.name = '<model>' is a placeholder",),
    ),
    "neither URL nor simulation": Case(
        prepare=experiment("simulate = true", "simulate = false"), says=("gateway", "base_url or simulate")
    ),
    "budget in USD without a price": Case(
        prepare=experiment('[prices."sim-small"]', '[prices."other"]', more="[budget]\nrun_cost_usd = 1.0\n"),
        says=("budget", "sim-small"),
    ),
    "--out under a file": Case(
        prepare=a_file_in_the_way,
        command=("run", "experiment.toml", "--out", "file/out"),
        says=("file/out: cannot be written", "--out"),
    ),
    "data folder under a file": Case(
        prepare=a_file_in_the_way, variables={HOME: "file/home"}, says=("file/home", HOME)
    ),
    "database without broker": Case(
        prepare=experiment(),
        variables={DATABASE_URL: NO_SERVER[DATABASE_URL]},
        says=(f"{DATABASE_URL} is set but {BROKER_URL} is not",),
    ),
    "broker without database": Case(
        prepare=experiment(),
        variables={BROKER_URL: NO_SERVER[BROKER_URL]},
        says=(f"{BROKER_URL} is set but {DATABASE_URL} is not",),
    ),
    "URL of another kind": Case(
        prepare=experiment(),
        variables=NO_SERVER | {DATABASE_URL: "mysql://u:secret@h/x"},
        says=(DATABASE_URL, "postgresql://"),
    ),
    "URL with a wrong port": Case(
        prepare=experiment(),
        variables=NO_SERVER | {DATABASE_URL: "postgresql://u:secret@h:port/x"},
        says=(DATABASE_URL, "port"),
    ),
    "worker without servers": Case(command=("worker",), says=(DATABASE_URL, BROKER_URL)),
    "unknown command": Case(command=("statsu",), says=("No command is named 'statsu'", "'status'")),
    "unknown subcommand": Case(command=("db", "upgrad"), says=("'upgrad'", "'upgrade'")),
    "unknown option": Case(command=("run", "x.toml", "--otu", "y"), says=("--otu", "--out")),
    "missing argument": Case(command=("run",), says=("Missing argument", "paretoken run --help")),
    "wrong number": Case(command=("worker", "--concurrency", "0"), says=("--concurrency", "1")),
}


def one_line(done: subprocess.CompletedProcess[str], *, code: int) -> str:
    """The only line on stderr."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "secret" not in line
    return line


@pytest.mark.parametrize("name", CASES)
def test_one_line_exit_code_2_and_nothing_written(command_line: CommandLine, name: str) -> None:
    case = CASES[name]
    folder = command_line.folder
    case.prepare(folder)
    before = written(folder)
    line = one_line(command_line(*case.command, **case.variables), code=2)
    assert all(text in line for text in case.says), line
    assert written(folder) == before


def written(folder: Path) -> set[Path]:
    """All there is, but for the data folder."""
    return {path for path in folder.rglob("*") if not path.is_relative_to(folder / "home")}


def test_a_port_in_use(command_line: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = one_line(command_line("gateway", "simulate", "--port", str(port)), code=2)
    assert str(port) in line
    assert "--port" in line


@pytest.mark.parametrize("command", [("status",), ("report",), ("export",)])
def test_an_unknown_run(paretoken: CommandLine, command: tuple[str, ...]) -> None:
    before = written(paretoken.folder)
    assert "No run is named 'nope'" in one_line(paretoken(*command, "nope"), code=2)
    assert written(paretoken.folder) == before


@pytest.mark.parametrize(
    ("away", "command"),
    [
        *((DATABASE_URL, command) for command in ("run experiment.toml", "worker", "scheduler", "status")),
        # `status` reads the database alone.
        *((BROKER_URL, command) for command in ("run experiment.toml", "worker", "scheduler")),
    ],
)
def test_servers_that_do_not_answer(paretoken: CommandLine, away: str, command: str) -> None:
    write_experiment(paretoken.folder)
    line = one_line(paretoken(*command.split(), **{away: NO_SERVER[away]}), code=1)
    assert ("No database answers" if away == DATABASE_URL else "No broker answers") in line


@pytest.mark.parametrize("command", [("run", "experiment.toml"), ("worker",), ("scheduler",)])
def test_a_database_that_is_not_migrated(
    command_line: CommandLine, empty_database_url: str, broker_url: str, command: tuple[str, ...]
) -> None:
    """Exit code 1, as for a server that does not answer: the same command works once that is put right."""
    write_experiment(command_line.folder)
    urls = {DATABASE_URL: empty_database_url, BROKER_URL: broker_url}
    line = one_line(command_line(*command, **urls), code=1)
    assert "paretoken db upgrade" in line
    assert "holds no tables of this program" in line


def test_db_upgrade_puts_it_right(
    command_line: CommandLine, empty_database_url: str, broker_url: str
) -> None:
    urls = {DATABASE_URL: empty_database_url, BROKER_URL: broker_url}
    assert "was empty" in command_line.must("db", "upgrade", **urls)
    assert "was" not in command_line.must("db", "upgrade", **urls)
    assert "There are no runs yet" in command_line.must("status", **urls)
