"""Programs that strategies start, looked for on this machine."""

from pathlib import Path

from paretoken.doctor.target import read_target
from tests.experiments import GATEWAY, write_experiment

COMMAND = """[[strategies]]
name = "{0}"
kind = "command"
client = "generic"
command = ["{1}"]
max_total_tokens = 9
"""


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
