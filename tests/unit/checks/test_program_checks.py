"""Checks that run the user's own programs: where they run, what they see, and when they are ended."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from workers.checks import CheckContext, Checked, check

CONTEXT = CheckContext(files={"data/birds.csv": b"a\n1\n"}, written={"out.json": b"{}"}, allow_commands=True)

FUNCTIONS = """
import os

def right(answer, folder):
    print("seen:", sorted(path.name for path in folder.rglob("*")))
    return answer == "42"

def told(answer, folder):
    return False, f"{answer} is not it"

def breaks(answer, folder):
    raise RuntimeError("broken")

def key(answer, folder):
    return "TAOTOKEN_API_KEY" not in os.environ, "a key"

def quits(answer, folder):
    os._exit(0)
"""


def command(*arguments: str, answer: str = "42", **params: Any) -> Checked:
    return check({"kind": "command", "command": arguments, **params}).run(answer, CONTEXT)


def program(code: str, **params: Any) -> Checked:
    return command(sys.executable, "-c", code, **params)


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_checks.py").write_text(FUNCTIONS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TAOTOKEN_API_KEY", "sk-secret")


def test_a_program_finds_the_answer_and_copies_of_the_files_in_its_folder() -> None:
    checked = program(
        "import pathlib; p = pathlib.Path(); print(sorted(str(f) for f in p.rglob('*.*')));"
        "assert (p / 'answer.txt').read_text() == '42'"
    )
    assert (checked.passed, checked.message) == (True, "exit code 0")
    assert checked.seen.splitlines() == ["['answer.txt', 'data/birds.csv', 'out.json']"]


@pytest.mark.parametrize(
    ("code", "params", "message"),
    [
        ("raise SystemExit(3)", {}, "exit code 3"),
        ("import os; raise SystemExit('TAOTOKEN_API_KEY' in os.environ)", {}, "exit code 0"),
        ("import sys; raise SystemExit(len(sys.stdin.read()))", {}, "exit code 0"),
        ("import time; time.sleep(1000)", {"timeout_s": 0.5}, "stopped after 0.5 s"),
    ],
)
def test_how_a_program_ends(code: str, params: dict[str, Any], message: str) -> None:
    checked = program(code, **params)
    assert (checked.passed, checked.message) == (message == "exit code 0", message)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_what_a_program_leaves_running_is_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    # The child holds the pipe's other end open as long as it lives.
    code = f"import os, time; end = open({str(tmp_path / 'pipe')!r}, 'w'); os.fork() or time.sleep(1000)"
    assert program(code).passed
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # waits for the end of file, which comes when nobody holds it any more
    os.close(reader)


def test_output_is_cut_and_an_answer_is_no_argument() -> None:
    assert len(program("print('x' * 100_000)").seen) == 2000
    assert command("true", answer="; rm -rf / #").passed


def test_a_program_that_is_missing_fails_the_check() -> None:
    checked = command("no-such-program-here")
    assert not checked.passed
    assert "cannot be started" in checked.message


@pytest.mark.parametrize(
    ("function", "answer", "passes", "message"),
    [
        ("my_checks:right", "42", True, "my_checks:right says True"),
        ("my_checks:right", "43", False, "my_checks:right says False"),
        ("my_checks:told", "43", False, "43 is not it"),
        ("my_checks:key", "", True, "a key"),
        ("my_checks:breaks", "", False, "exit code 1"),
        ("my_checks:quits", "", False, "my_checks:quits gave no verdict"),
        ("no_such_module:f", "", False, "exit code 1"),
    ],
)
def test_a_function_decides(function: str, answer: str, passes: bool, message: str) -> None:
    checked = check({"kind": "python", "function": function}).run(answer, CONTEXT)
    assert (checked.passed, checked.message) == (passes, message)


def test_what_a_function_prints_is_kept() -> None:
    checked = check({"kind": "python", "function": "my_checks:right"}).run("42", CONTEXT)
    assert checked.seen == "seen: ['answer.txt', 'birds.csv', 'data', 'out.json']\n"


@pytest.mark.parametrize(
    "spec", [{"kind": "command", "command": ["true"]}, {"kind": "python", "function": "a:b"}]
)
def test_nothing_runs_unless_the_experiment_allows_it(spec: dict[str, Any]) -> None:
    checked = check(spec).run("42", CheckContext())
    assert not checked.passed
    assert "allow_commands = true" in checked.message
