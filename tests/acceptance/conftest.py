"""The real command line in a process of its own, in an environment that holds nothing of the developer's."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from paretoken.settings import BROKER_URL, DATABASE_URL, HOME

TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """`paretoken` as a user calls it, in a folder of its own."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run to the end, whatever the exit code. `variables` are added to the environment; empty ones are unset."""
        started = self.start(*arguments, **variables)
        try:
            stdout, stderr = started.communicate(timeout=TIMEOUT_S)
        finally:
            started.kill()
        return subprocess.CompletedProcess(started.args, started.returncode, stdout, stderr)

    def start(self, *arguments: str | Path, **variables: str) -> subprocess.Popen[str]:
        """The same, without waiting for its end."""
        inherited = {
            name: os.environ[name] for name in ("PATH", "CI", "LD_LIBRARY_PATH") if name in os.environ
        }
        environment = inherited | {"HOME": str(self.folder)} | self.environment | variables
        return subprocess.Popen(
            [sys.executable, "-m", "paretoken", *map(str, arguments)],
            cwd=self.folder,
            env={name: value for name, value in environment.items() if value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def must(self, *arguments: str | Path, **variables: str) -> str:
        """Run, and fail the test unless the exit code is 0; give what was printed."""
        done = self(*arguments, **variables)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def command_line(tmp_path: Path) -> CommandLine:
    """Knows no server: a command that needs one starts the embedded ones in this test's data folder."""
    return CommandLine(folder=tmp_path, environment={HOME: str(tmp_path / "home")})


@pytest.fixture
def paretoken(command_line: CommandLine, database_url: str, broker_url: str) -> CommandLine:
    """Works with the session's servers, through the two URL variables."""
    urls = {DATABASE_URL: database_url, BROKER_URL: broker_url}
    return CommandLine(folder=command_line.folder, environment=command_line.environment | urls)
