"""What an experiment names on this machine: the variable of the key, and programs that strategies start."""

from pathlib import Path

import pytest

from paretoken.doctor.target import read_target
from paretoken.doctor.variables import check_key
from tests.experiments import GATEWAY, write_experiment

COMMAND = """[[strategies]]
name = "{0}"
kind = "command"
client = "generic"
command = ["{1}"]
max_total_tokens = 9
"""


@pytest.mark.parametrize(
    "pasted", ["AIzaSyD3m0K3yABCDEFGHIJKLMNOPQRSTUVWX1", "9f8e7d6c5b4a39281706f5e4d3c2b1a0"]
)
def test_a_key_in_place_of_a_variable_is_not_shown(tmp_path: Path, pasted: str) -> None:
    gateway = f'[gateway]\nbase_url = "https://gw.example/api"\napi_key_env = "{pasted}"\n'
    target, findings = read_target(write_experiment(tmp_path, gateway=gateway), model=None, environment={})
    assert [one.level for one in findings] == ["failure"]
    assert "the name of an environment variable" in findings[0].seen
    assert pasted not in str([findings, check_key(target)])


def test_a_program_that_cannot_be_run_here_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "agent").touch(mode=0o644)
    programs = {"there": "sh", "plain": str(tmp_path / "agent"), "none": "no-such-agent"}
    path = write_experiment(
        tmp_path,
        gateway=GATEWAY.format(base_url="https://gw.example/api"),
        strategies="\n".join(COMMAND.format(*named) for named in programs.items()),
        top="allow_commands = true",
    )
    _, findings = read_target(path, model=None, environment={})
    said = [f"{one.level}: {one.seen} -> {one.do}" for one in findings if one.seen.startswith("strategy")]
    assert said == [
        f"warning: strategy 'plain': {tmp_path}/agent is there on this machine, but cannot be executed -> "
        f"Allow it: chmod +x {tmp_path}/agent",
        "warning: strategy 'none': no-such-agent is not installed on this machine, or not on its PATH -> "
        "Install it on every worker, or name its path in the strategy's command.",
    ]
