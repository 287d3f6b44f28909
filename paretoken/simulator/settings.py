"""What the simulator can be told, once for the command line and for `launch`."""

from dataclasses import dataclass, fields
from pathlib import Path

HOST = "127.0.0.1"
BASE_PATH = "/api/v1"


@dataclass(frozen=True, kw_only=True)
class SimulatorSettings:
    """Every option of the simulator."""

    host: str = HOST
    port: int = 0
    """0 takes any free one."""
    base_path: str = BASE_PATH
    tasks: Path | None = None
    """JSON Lines file of the tasks whose answers are known."""
    seed: int = 0
    record: Path | None = None
    """JSON Lines file to which every request is appended."""
    latency_ms: float = 0.0
    """Median time to an answer."""
    latency_sigma: float = 0.0
    """Sigma of the log-normal latency; 0 makes all equally long."""
    rpm: int | None = None
    """Requests per minute, for each key and model."""
    tpm: int | None = None
    """Tokens per minute, for each key and model."""
    api_key_env: str | None = None
    """Environment variable with the key that requests must bring; without it any key will do."""
    faults: str = "[]"
    """JSON list of the faults to begin with."""
    until_stdin_closes: bool = False
    """End when standard input closes, which it does when the parent process dies."""

    def arguments(self) -> list[str]:
        """The same settings as options of the command."""
        arguments = []
        for field in fields(self):
            value = getattr(self, field.name)
            option = "--" + field.name.replace("_", "-")
            if value is True:
                arguments.append(option)
            elif value is not None and value is not False:
                arguments.append(f"{option}={value}")
        return arguments
