"""Checks that run the user's own program or function, where the experiment allows it.

They run in a folder that holds copies of the trial's files and its answer, with a time limit, and with an environment
that holds no key: `PATH`, and for `python` what finds modules.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from pydantic import Field

from workers.checks.base import Check, CheckContext, Checked

ANSWER_FILE = "answer.txt"
OUTPUT_CHARS = 2000
_KEPT_VARIABLES = ("PATH", "SYSTEMROOT", "LANG", "LC_ALL")

# The verdict goes to a file of its own: what the function prints is its own affair.
_CALL = """
import importlib, json, pathlib, sys
module, _, name = sys.argv[1].partition(":")
function = getattr(importlib.import_module(module), name)
found = function(pathlib.Path("answer.txt").read_text(encoding="utf-8"), pathlib.Path.cwd())
passed, message = found if isinstance(found, tuple) else (found, "")
pathlib.Path(sys.argv[2]).write_text(json.dumps([bool(passed), str(message)[:2000]]), encoding="utf-8")
"""


class Program(Check):
    """Base of the checks that start a process."""

    quick: ClassVar[bool] = False

    timeout_s: float = Field(default=30, gt=0, le=3600)

    def start(
        self,
        arguments: Sequence[str],
        answer: str,
        context: CheckContext,
        folder: Path,
        keep: Sequence[str] = (),
    ) -> Checked:
        """Whether the process ends with exit code 0 in time; `seen` is what it printed."""
        _lay_out(folder, {**context.files, **context.written, ANSWER_FILE: answer.encode("utf-8", "replace")})
        variables = {name: os.environ[name] for name in (*_KEPT_VARIABLES, *keep) if name in os.environ}
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    list(arguments),
                    cwd=folder,
                    env={**variables, "HOME": str(folder)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                message = f"{arguments[0]!r} cannot be started ({error.strerror})"
                return Checked(passed=False, message=message)
            code = _wait(process, self.timeout_s)
            output.seek(0)
            printed = output.read(OUTPUT_CHARS).decode("utf-8", "replace")
        if code is None:
            return Checked(passed=False, message=f"stopped after {self.timeout_s:g} s", seen=printed)
        return Checked(passed=code == 0, message=f"exit code {code}", seen=printed or None)

    def run(self, answer: str, context: CheckContext) -> Checked:
        if not context.allow_commands:
            return Checked(passed=False, message="the experiment does not say allow_commands = true")
        # Some programs leave what cannot be removed at once; the system's own cleaning takes it.
        try:
            with tempfile.TemporaryDirectory(prefix="paretoken-check-", ignore_cleanup_errors=True) as name:
                return self.judge(answer, context, Path(name))
        except OSError as error:
            return Checked(passed=False, message=f"the folder cannot be laid out: {error.strerror}")

    def judge(self, answer: str, context: CheckContext, folder: Path) -> Checked:
        """The verdict; `folder` is new and empty."""
        raise NotImplementedError


class Command(Program):
    """The user's own program ends with exit code 0. The answer is in `answer.txt` of the folder it is started in."""

    kind: ClassVar[str] = "command"

    command: Sequence[str] = Field(min_length=1)
    """Program and arguments; no shell reads them, and nothing of the answer is put into them."""

    def judge(self, answer: str, context: CheckContext, folder: Path) -> Checked:
        return self.start(self.command, answer, context, folder)


class Python(Program):
    """The user's own function `f(answer, folder)` returns true, or a pair of that and a message."""

    kind: ClassVar[str] = "python"

    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`module:function`, importable on every worker."""

    def judge(self, answer: str, context: CheckContext, folder: Path) -> Checked:
        work, verdict = folder / "work", folder / "verdict.json"
        work.mkdir()
        arguments = [sys.executable, "-c", _CALL, self.function, str(verdict)]
        ended = self.start(arguments, answer, context, work, keep=("PYTHONPATH", "VIRTUAL_ENV"))
        if not ended.passed:
            return ended
        if not verdict.exists():
            return Checked(passed=False, message=f"{self.function} gave no verdict", seen=ended.seen)
        passed, message = json.loads(verdict.read_text(encoding="utf-8"))
        return Checked(passed=passed, message=message or f"{self.function} says {passed}", seen=ended.seen)


def _lay_out(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their names; those of a task may stand in folders, none outside."""
    for name, content in files.items():
        path = folder / PurePosixPath(name)
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"the file name {name!r} leads out of the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _wait(process: "subprocess.Popen[bytes]", timeout_s: float) -> int | None:
    """The exit code; `None` when the process and all that it started had to be ended."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end_group(process)


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):  # all of it has ended
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
