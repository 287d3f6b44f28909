"""Where benchmarks run: servers, a quick gateway, a crew of real processes, and runs on them."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import usage
from benchmarks.gateway import MODEL, QuickGateway, quick_gateway
from benchmarks.tasks import write_tasks
from db import connection as database
from db.connection import Connection
from paretoken import servers
from paretoken.processes import Crew
from paretoken.services import Services, started_services
from paretoken.settings import BROKER_URL, DATABASE_URL, read_settings
from scheduler.experiment import load
from scheduler.plan import Plan, plan
from workers.keys import read_key

KEY = "BENCHMARK_GATEWAY_KEY"
_LOOK_S = 0.02

EXPERIMENT = """
run_id = "{run_id}"
tasks = "tasks-{tasks}.jsonl"
[gateway]
base_url = "{base_url}"
api_key_env = "BENCHMARK_GATEWAY_KEY"
[model]
name = "{model}"
max_tokens = 50
[prices."{model}"]
input_usd_per_1m = 0.15
output_usd_per_1m = 0.60
"""
SINGLE = '\n[[strategies]]\nname = "{name}"\nkind = "single"\n'
SAMPLED = '\n[[strategies]]\nname = "{name}"\nkind = "self_consistency"\nk = {samples}\ntemperature = 0.7\n'


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a measurement works with."""

    services: Services
    gateway: QuickGateway
    connection: Connection
    folder: Path
    crew: type[Crew]

    @property
    def environment(self) -> dict[str, str]:
        """For commands that shall use the same servers."""
        return os.environ | {DATABASE_URL: self.services.database_url, BROKER_URL: self.services.broker_url}

    def experiment(self, run_id: str, *, tasks: int, strategies: int = 1, samples: int = 1) -> Path:
        """An experiment file of tasks × strategies × samples calls."""
        if not (self.folder / f"tasks-{tasks}.jsonl").exists():
            write_tasks(self.folder / f"tasks-{tasks}.jsonl", tasks)
        kind = SINGLE if samples == 1 else SAMPLED
        text = EXPERIMENT.format(run_id=run_id, tasks=tasks, base_url=self.gateway.base_url, model=MODEL)
        text += "".join(kind.format(name=f"s{n:02d}", samples=samples) for n in range(1, strategies + 1))
        path = self.folder / f"{run_id}.toml"
        path.write_text(text)
        return path

    def plan(self, run_id: str, *, tasks: int, strategies: int = 1, samples: int = 1) -> Plan:
        """A run that begins at once where a crew is at work."""
        loaded = load(self.experiment(run_id, tasks=tasks, strategies=strategies, samples=samples))
        fingerprint = read_key(KEY).fingerprint
        return plan(self.connection, loaded, key_fingerprint=fingerprint, base_url=loaded.base_url)

    @contextmanager
    def working(self, *, workers: int, concurrency: int) -> Iterator[Crew]:
        """A scheduler and workers that are ready, and ended afterwards."""
        crew = self.crew(services=self.services, logs=self.folder / "logs")
        began = self._one("SELECT clock_timestamp() AS value")
        try:
            crew.start(workers=workers, concurrency=concurrency)
            while self._one(_READY, [began]) < workers + 1:
                crew.require_alive()
                time.sleep(_LOOK_S)
            yield crew
        finally:
            crew.stop()

    def await_calls(self, run: int, calls: int, crew: Crew) -> float:
        """Wait until so many calls of the run are settled; give the moment (`time.perf_counter`)."""
        while self._one(_SETTLED, [run]) < calls:
            crew.require_alive()
            time.sleep(_LOOK_S)
        return time.perf_counter()

    def await_end(self, run: int, crew: Crew) -> None:
        """Wait until the run is finished."""
        while (state := self._one("SELECT state AS value FROM run WHERE id = %s", [run])) != "finished":
            assert state == "running", f"the run is {state}"
            crew.require_alive()
            time.sleep(_LOOK_S)

    def calls_per_s(self, run: int) -> float:
        """Of a finished run, from its first call to its end."""
        return float(self._one(_PACE, [run]))

    def server_cpu_s(self) -> float | None:
        """Of Postgres and Valkey; None where they are not the embedded ones of this stage."""
        pids = self.server_pids()
        return usage.cpu_s(pids, with_ended=True) if pids else None

    def server_pids(self) -> set[int]:
        if read_settings().database_url is not None:
            return set()
        state = servers.status(read_settings().home)
        return set().union(*(usage.tree(pid) for pid in (state.postgres.pid, state.valkey.pid) if pid))

    def _one(self, query: str, values: Sequence[object] = ()) -> "float | int | str":
        row = self.connection.execute(query, values).fetchone()
        assert row is not None
        return row["value"]


_READY = """SELECT (SELECT count(*) FROM worker WHERE started_at >= %s AND lease_until > now())
  + (SELECT least(count(*), 1) FROM pg_stat_activity
     WHERE application_name = 'paretoken scheduler' AND datname = current_database()) AS value"""
_SETTLED = "SELECT coalesce(sum(ok_calls + error_calls + unknown_calls), 0)::bigint AS value FROM tally WHERE run = %s"
_PACE = """SELECT count(*) / extract(epoch FROM max(run.finished_at) - min(call.started_at)) AS value
FROM run JOIN call ON call.run = run.id WHERE run.id = %s"""


@contextmanager
def stage(*, latency_ms: float, sigma: float = 0.0, crew: type[Crew] = Crew) -> Iterator[Stage]:
    """Servers of its own in a temporary folder, unless the two URL variables name some, and a gateway."""
    os.environ[KEY] = "sk-benchmark"
    with tempfile.TemporaryDirectory(prefix="paretoken-benchmark-") as name:
        folder = Path(name)
        # As root the servers run as another user, who must reach their data.
        folder.chmod(0o755)
        os.environ["PARETOKEN_HOME"] = str(folder / "home")
        with (
            started_services() as services,
            quick_gateway(latency_ms=latency_ms, sigma=sigma) as gateway,
            database.connect(services.database_url) as connection,
        ):
            yield Stage(services=services, gateway=gateway, connection=connection, folder=folder, crew=crew)


def crew_cpu_s(crew: Crew) -> float:
    """Seconds of CPU that scheduler and workers have used so far."""
    return usage.cpu_s(child.pid for child in crew.children)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
