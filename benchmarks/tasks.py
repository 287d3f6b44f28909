"""Task files for benchmarks."""

import json
from pathlib import Path


def write_tasks(path: Path, number: int, *, goal_chars: int = 0) -> Path:
    """Small sums, each goal filled up to about `goal_chars` characters; give the path."""
    with path.open("w") as file:
        for index in range(1, number + 1):
            goal = f"Task {index}: what is {index} times {index + 7}? Give only the number. "
            task = {
                "id": f"t{index:06d}",
                "goal": goal.ljust(goal_chars, "."),
                "difficulty": ["easy", "medium", "hard"][index % 3],
                "reference": str(index * (index + 7)),
                "checks": [{"kind": "number", "value": index * (index + 7)}],
            }
            file.write(json.dumps(task) + "\n")
    return path
