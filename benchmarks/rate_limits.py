"""How much of a gateway's limits the whole system uses, minute by minute, and how often it is refused.

    python -m benchmarks.rate_limits                   # limits configured: 600 requests, 200,000 tokens a minute
    python -m benchmarks.rate_limits --adaptive        # no limits configured: the gateway alone enforces them

Four worker processes on one machine, embedded servers of its own in a temporary folder, a simulated gateway that
enforces both limits in a true sliding window, and a run that wants about three times as much.
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.tasks import write_tasks
from db import connection as database
from db.runs import cancel_run
from paretoken.live import watch
from paretoken.processes import Crew
from paretoken.services import started_services
from paretoken.simulator import launch
from scheduler.experiment import load
from scheduler.plan import plan
from workers.keys import read_key

REQUESTS, TOKENS, WORKERS = 600, 200_000, 4
KEY = "BENCHMARK_GATEWAY_KEY"

EXPERIMENT = """
tasks = "tasks.jsonl"
repeats = {repeats}
[gateway]
base_url = "{base_url}"
api_key_env = "BENCHMARK_GATEWAY_KEY"
[model]
name = "sim-small"
max_tokens = 1200
{limits}
[[strategies]]
name = "cot"
kind = "chain_of_thought"
"""


class TimeIsUp(Exception):
    """The minutes to be measured are over."""


def measure(folder: Path, *, minutes: int, adaptive: bool) -> list[dict[str, Any]]:
    """Per minute: requests, tokens, refusals (429) and the shares of the limits that were used."""
    os.environ[KEY] = "sk-benchmark"
    os.environ["PARETOKEN_HOME"] = str(folder / "home")
    tasks = write_tasks(folder / "tasks.jsonl", 500, goal_chars=800)
    with (
        started_services() as services,
        launch(tasks=tasks, rpm=REQUESTS, tpm=TOKENS, latency_ms=600, latency_sigma=0.4) as gateway,
        database.connect(services.database_url) as connection,
    ):
        limits = f"[limits]\nrequests_per_minute = {REQUESTS}\ntokens_per_minute = {TOKENS}\n"
        path = folder / "experiment.toml"
        path.write_text(
            EXPERIMENT.format(
                base_url=gateway.base_url, limits="" if adaptive else limits, repeats=4 * minutes
            )
        )
        loaded = load(path)
        planned = plan(
            connection, loaded, key_fingerprint=read_key(KEY).fingerprint, base_url=loaded.base_url
        )
        crew = Crew(services=services, logs=folder / "logs")
        crew.start(workers=WORKERS, concurrency=64)
        # The minutes count from the first request, which on a busy machine takes a while to come.
        end = time.monotonic() + 60 * minutes + 40

        def time_is_up() -> None:
            if time.monotonic() > end:
                raise TimeIsUp

        try:
            watch(connection, planned.run_id, alive=time_is_up)
        except TimeIsUp:
            cancel_run(connection, run=planned.run)
        finally:
            crew.stop()
        failed = connection.execute(
            "SELECT count(*) AS jobs FROM job WHERE run = %s AND state = 'failed'", [planned.run]
        ).fetchone()
        assert failed is not None
        assert failed["jobs"] == 0, "a throttled job must wait, not fail"
        return per_minute(gateway.record(), minutes)


def per_minute(record: list[dict[str, Any]], minutes: int) -> list[dict[str, Any]]:
    first = min(row["started"]["wall"] for row in record)
    requests: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    refused: Counter[int] = Counter()
    for row in record:
        minute = int((row["started"]["wall"] - first) // 60) + 1
        requests[minute] += row["served"]
        tokens[minute] += row["total_tokens"] or 0
        refused[minute] += row["status"] == 429
    return [
        {
            "minute": minute,
            "requests": requests[minute],
            "tokens": tokens[minute],
            "refused": refused[minute],
            "share_of_limit": max(requests[minute] / REQUESTS, tokens[minute] / TOKENS),
            "refused_share": refused[minute] / max(requests[minute] + refused[minute], 1),
        }
        for minute in range(1, minutes + 1)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=int, default=6)
    parser.add_argument("--adaptive", action="store_true", help="configure no limits")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paretoken-benchmark-") as folder:
        rows = measure(Path(folder), minutes=options.minutes, adaptive=options.adaptive)
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
