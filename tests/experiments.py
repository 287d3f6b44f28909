"""Small experiment files for tests."""

import json
from pathlib import Path
from typing import Any

GATEWAY = '[gateway]\nbase_url = "{base_url}"\napi_key_env = "TEST_GATEWAY_KEY"\ntimeout_s = 20\n'


def write_tasks(folder: Path, number: int) -> Path:
    """Tasks with one right number each."""
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(task(index)) + "\n" for index in range(1, number + 1)))
    return path


def task(index: int) -> dict[str, Any]:
    return {
        "id": f"t{index:05d}",
        "goal": f"Task {index}: what is {index} times {index + 7}? Give only the number.",
        "category": ["odd", "even"][index % 2],
        "difficulty": ["easy", "medium", "hard"][index % 3],
        "reference": str(index * (index + 7)),
        "checks": [{"kind": "number", "value": index * (index + 7)}],
    }


def write_experiment(
    folder: Path,
    *,
    tasks: int = 20,
    gateway: str = "[gateway]\nsimulate = true\n",
    strategies: str = '[[strategies]]\nname = "baseline"\nkind = "single"\n',
    top: str = "",
    more: str = "",
) -> Path:
    """An experiment of `tasks` tasks; the other arguments are TOML that goes in as it is."""
    write_tasks(folder, tasks)
    path = folder / "experiment.toml"
    model = '[model]\nname = "sim-small"\ntemperature = 0.0\nmax_tokens = 200\n'
    prices = '[prices."sim-small"]\ninput_usd_per_1m = 0.15\noutput_usd_per_1m = 0.6\n'
    path.write_text(
        f'run_id = "test"\ntasks = "tasks.jsonl"\n{top}\n{gateway}\n{model}\n{prices}\n{more}\n{strategies}'
    )
    return path
