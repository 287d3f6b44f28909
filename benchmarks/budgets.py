"""Whether concurrent workers keep a run's budget: twenty runs of 1.00 USD, four worker processes.

python -m benchmarks.budgets
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

from benchmarks.tasks import write_tasks
from db import connection as database
from paretoken.live import watch
from paretoken.processes import Crew
from paretoken.services import started_services
from paretoken.simulator import launch
from scheduler.experiment import load
from scheduler.plan import plan
from workers.keys import read_key

BUDGET_USD, WORKERS = 1.0, 4
KEY = "BENCHMARK_GATEWAY_KEY"

EXPERIMENT = """
tasks = "tasks.jsonl"
[gateway]
base_url = "{base_url}"
api_key_env = "BENCHMARK_GATEWAY_KEY"
[model]
name = "sim-small"
max_tokens = 300
[prices."sim-small"]
input_usd_per_1m = 10.0
output_usd_per_1m = 40.0
[budget]
run_cost_usd = {budget}
[[strategies]]
name = "cot"
kind = "chain_of_thought"
"""


def measure(folder: Path, *, runs: int) -> list[float]:
    """USD that each run has spent when its budget stopped it."""
    os.environ[KEY] = "sk-benchmark"
    os.environ["PARETOKEN_HOME"] = str(folder / "home")
    tasks = write_tasks(folder / "tasks.jsonl", 400)
    spent = []
    with (
        started_services() as services,
        launch(tasks=tasks, latency_ms=100, latency_sigma=0.5) as gateway,
        database.connect(services.database_url) as connection,
    ):
        path = folder / "experiment.toml"
        path.write_text(EXPERIMENT.format(base_url=gateway.base_url, budget=BUDGET_USD))
        crew = Crew(services=services, logs=folder / "logs")
        crew.start(workers=WORKERS, concurrency=16)
        try:
            for number in range(1, runs + 1):
                loaded = load(path, run_id=f"budget-{number}")
                plan(connection, loaded, key_fingerprint=read_key(KEY).fingerprint, base_url=loaded.base_url)
                seen = watch(connection, loaded.run_id, alive=crew.require_alive)
                assert seen.state == "paused"
                spent.append(seen.cost_usd)
        finally:
            crew.stop()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paretoken-benchmark-") as folder:
        spent = measure(Path(folder), runs=options.runs)
    print(
        json.dumps({"runs": len(spent), "least_usd": min(spent), "most_usd": max(spent), "spent_usd": spent})
    )


if __name__ == "__main__":
    main()
