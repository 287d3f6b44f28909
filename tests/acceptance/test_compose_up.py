"""The Compose stack on a real engine, where there is one: it comes up healthy, and the monitor asks for its token."""

import os
import secrets
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

ROOT = Path(__file__).parents[2]
MONITOR = "http://127.0.0.1:8766"
NAMES = (
    "POSTGRES_PASSWORD",
    "BROKER_PASSWORD",
    "PARETOKEN_WORKER_PASSWORD",
    "PARETOKEN_SERVE_TOKEN",
    "TAOTOKEN_API_KEY",
)


def engine_says() -> str | None:
    """Why nothing can be started here; None where it can."""
    for command in (["docker", "version"], ["docker", "compose", "version"]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"`{' '.join(command)}` does not run: {error}"
        if done.returncode:
            return f"`{' '.join(command)}` says: {done.stderr.strip().splitlines()[0]}"
    return None


@pytest.mark.timeout(1800)
def test_the_stack_comes_up_healthy(tmp_path: Path) -> None:
    if said := engine_says():
        pytest.skip(f"no container engine with Compose: {said}")
    given = {name: secrets.token_hex(24) for name in NAMES} | {"PARETOKEN_FILES": str(tmp_path)}

    def compose(*arguments: str) -> str:
        command = ["docker", "compose", "--project-name", f"paretoken-test-{os.getpid()}", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    try:
        compose("up", "--detach", "--build", "--wait", "--scale", "worker=2")
        assert "is at revision" in compose("run", "--rm", "cli", "db", "upgrade")
        with urlopen(f"{MONITOR}/healthz") as answer:
            assert answer.status == 200
        with pytest.raises(HTTPError, match=r"40[13]"):
            urlopen(MONITOR)
        token = {"Authorization": f"Bearer {given['PARETOKEN_SERVE_TOKEN']}"}
        with urlopen(Request(MONITOR, headers=token)) as answer:
            assert answer.status == 200
        logs = compose("logs")
        assert [name for name in NAMES if given[name] in logs] == []
    finally:
        compose("down", "--volumes", "--remove-orphans")
