"""The same calls as samples of an inspect-ai task; `benchmarks.alternatives` runs it with a Python that has inspect-ai.

Needs nothing of this repository, so that it can stand in another virtual environment.
"""

import json
import sys
import time
from pathlib import Path


def evaluate(calls: int, concurrency: int, logs: str) -> None:
    from inspect_ai import Task
    from inspect_ai import eval as evaluate_task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import GenerateConfig
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate

    samples = [
        Sample(
            id=number,
            input=f"Task {number}: what is {number} times {number + 7}? Give only the number.",
            target=str(number * (number + 7)),
        )
        for number in range(1, calls + 1)
    ]
    task = Task(
        dataset=MemoryDataset(samples),
        solver=generate(),
        scorer=includes(),
        config=GenerateConfig(max_tokens=50, max_connections=concurrency),
    )
    began, used = time.perf_counter(), time.process_time()
    [log] = evaluate_task(
        task, model="openai-api/bench/bench", log_dir=logs, max_samples=concurrency, display="none"
    )
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - used
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "status": log.status}))


def count(logs: str) -> None:
    """Samples that stand in the newest log."""
    from inspect_ai.log import list_eval_logs, read_eval_log_sample_summaries

    newest = list_eval_logs(logs)[0]
    print(json.dumps({"samples": len(read_eval_log_sample_summaries(newest)), "log": Path(newest.name).name}))


if __name__ == "__main__":
    if sys.argv[1] == "count":
        count(sys.argv[2])
    else:
        evaluate(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
