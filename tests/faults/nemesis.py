"""A seeded nemesis: it kills, freezes, restarts and flushes whatever a run stands on while the gateway misbehaves.

The same seed strikes in the same order with the same parameters; when each strike falls depends on the run's progress.
As a command it works through many seeds and prints the table of docs/reliability.md:

    python -m tests.faults.nemesis --seeds 1-10 --jobs 2000 --faults 30
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from db.connection import connect
from db.migration import upgrade
from paretoken import servers
from paretoken.servers.supervisor import Server, open_servers
from paretoken.services import Services
from paretoken.simulator import SimulatedGateway, launch
from tests.experiments import write_tasks
from tests.faults.invariants import Findings, check
from tests.faults.processes import Cast, Process, freeze, thaw, until
from tests.faults.runs import CALLS_PER_TASK, SECRET, begin, count, wait_for_the_end
from tests.runs import KEY

WORKERS = 2
LATENCY_MS = 600.0
"""Long enough for the strikes to fall while calls are in flight, and for the run to outlast them."""
TIMEOUT_S = 10.0
PATIENCE_S = 120.0
"""Within so long a run must have recovered and got on."""
DOUBLE = 1 / 4
"""Share of strikes that fall on a run which has not recovered from the one before."""
END_S = 300.0

WEATHER = (
    {"kind": "server_error", "status": 503},
    {"kind": "rate_limited", "headers": {"retry-after-ms": "300"}},
    {"kind": "reset"},
    {"kind": "reset_after_serving"},
    {"kind": "reset_mid_body"},
    {"kind": "timeout_after_serving"},
    {"kind": "close"},
    {"kind": "close_after_reply"},
    {"kind": "html"},
    {"kind": "error_with_200"},
    {"kind": "malformed_json"},
    {"kind": "empty_choices"},
    {"kind": "missing_usage"},
    {"kind": "slow_body", "duration_s": 1.0},
)


@dataclass(frozen=True, kw_only=True)
class Battle:
    """What became of one seed."""

    seed: int
    faults: int
    in_flight: int
    """Calls that were in flight at the faults: at most so many may be unknown or paid twice because of them."""
    took_s: float
    found: Findings


@dataclass(kw_only=True)
class Nemesis:
    """Strikes one kind of fault after another, each kind equally often."""

    home: Path
    cast: Cast
    gateway: SimulatedGateway
    rng: random.Random
    schedulers: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    leaving: list[Process] = field(default_factory=list)
    in_flight: int = 0
    struck: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.schedulers.append(self.cast.scheduler())
        self.workers += [self.cast.worker() for _ in range(WORKERS)]
        self.kinds: dict[str, Callable[[], None]] = {
            "kill a worker": self.kill_worker,
            "stop a worker": self.stop_worker,
            "freeze a worker": self.freeze_worker,
            "kill the scheduler": self.kill_scheduler,
            "restart the broker": self.restart_broker,
            "kill the broker": self.kill_broker,
            "flush the broker": self.flush_broker,
            "restart Postgres": self.restart_postgres,
            "change the weather": self.change_weather,
        }

    def plan(self, strikes: int) -> list[str]:
        """Which kinds, in which order."""
        kinds: list[str] = []
        while len(kinds) < strikes:
            kinds += self.rng.sample(list(self.kinds), len(self.kinds))
        return kinds[:strikes]

    def strike(self, kind: str) -> None:
        self._supervise()
        self.kinds[kind]()
        self.struck[kind] += 1

    def kill_worker(self) -> None:
        victim = self._pick(self.workers)
        victim.kill()
        victim.wait()
        self.in_flight += self._calls_of(victim)
        self.workers.append(self.cast.worker())

    def stop_worker(self) -> None:
        """It finishes its calls while its successor is at work already."""
        self._until(lambda: any(map(self._is_at_work, self.workers)), "a worker is at work")
        victim = self.workers.pop([self._is_at_work(worker) for worker in self.workers].index(True))
        victim.send_signal(signal.SIGTERM)
        self.leaving.append(victim)
        self.workers.append(self.cast.worker())

    def freeze_worker(self) -> None:
        """For longer than its lease, until its calls have been given to others."""
        victim = self.rng.choice(self.workers)
        freeze(victim)
        held = self._calls_of(victim)
        self.in_flight += held
        try:
            self._until(lambda: self._calls_of(victim) == 0, "the reaper takes the calls")
        finally:
            thaw(victim)

    def kill_scheduler(self) -> None:
        victim = self._pick(self.schedulers)
        victim.kill()
        victim.wait()
        self.schedulers.append(self.cast.scheduler())

    def restart_broker(self) -> None:
        self._restart(self._broker(), signal.SIGTERM)

    def kill_broker(self) -> None:
        """It loses what it had not written for up to a second."""
        self._restart(self._broker(), signal.SIGKILL)

    def flush_broker(self) -> None:
        with redis.Redis.from_url(self.cast.services.broker_url) as broker:
            broker.flushall()

    def restart_postgres(self) -> None:
        """Immediately: no session is asked, what was not committed is lost."""
        self.in_flight += count_alone(
            self.cast.services, "SELECT count(*) FROM call WHERE status = 'started'"
        )
        self._restart(open_servers(self.home)[0], signal.SIGQUIT)

    def change_weather(self) -> None:
        kinds = self.rng.sample(WEATHER, 6)
        self.gateway.set_faults(
            [kind | {"probability": round(self.rng.uniform(0.01, 0.04), 4)} for kind in kinds]
        )

    def await_progress(self, run: int, calls: int) -> None:
        query = f"SELECT count(*) FROM call WHERE run = {run} AND status <> 'started'"
        self._until(lambda: count_alone(self.cast.services, query) >= calls, f"{calls} calls")

    def make_peace(self) -> None:
        """No more faults; whoever was asked to stop has done so cleanly, and nobody has ended by himself."""
        self.gateway.set_faults([])
        for process in self.leaving:
            assert process.wait(timeout=120) == 0, self.cast.log(process)
        self._supervise()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, and start again meanwhile whoever ended at his start: nobody else may be left to go on."""

        def reached() -> bool:
            self._supervise()
            return condition()

        until(reached, what, deadline_s=PATIENCE_S)

    def _supervise(self) -> None:
        """Replace those who were started while a server was away, which they say; nobody else may have ended."""
        for processes, start in ((self.workers, self.cast.worker), (self.schedulers, self.cast.scheduler)):
            for process in [process for process in processes if process.poll() is not None]:
                said = self.cast.log(process)
                assert process.returncode == 1, said
                assert said.startswith(("Error: No database answers", "Error: No broker answers")), said
                processes.remove(process)
                processes.append(start())

    def _is_at_work(self, worker: Process) -> bool:
        query = f"SELECT count(*) FROM worker WHERE name LIKE '%:{worker.pid}:%'"
        return count_alone(self.cast.services, query) > 0

    def _pick(self, processes: list[Process]) -> Process:
        return processes.pop(self.rng.randrange(len(processes)))

    def _broker(self) -> Server:
        return open_servers(self.home)[1]

    def _restart(self, server: Server, number: signal.Signals) -> None:
        pid = server.status().pid
        assert pid is not None
        os.kill(pid, number)
        until(lambda: not server.status().running, f"{server.engine.name} ends")
        time.sleep(self.rng.uniform(0, 2))
        assert server.start() in (self.cast.services.database_url, self.cast.services.broker_url)

    def _calls_of(self, worker: Process) -> int:
        query = f"SELECT count(*) FROM call WHERE status = 'started' AND worker LIKE '%:{worker.pid}:%'"
        return count_alone(self.cast.services, query)


def count_alone(services: Services, query: str) -> int:
    """A number, over a connection of its own: others do not outlive the faults."""
    with connect(services.database_url) as connection:
        return count(connection, query)


def fight(seed: int, *, jobs: int, strikes: int, home: Path, folder: Path) -> Battle:
    """One run of at least so many jobs under so many strikes; raises `AssertionError` where an invariant breaks.

    `home` holds embedded servers of the battle's own, which it starts and stops.
    """
    rng = random.Random(f"nemesis {seed}")
    tasks = -(-jobs // CALLS_PER_TASK)
    started = time.monotonic()
    with _battlefield(home, folder, tasks, seed) as (services, gateway, cast):
        with connect(services.database_url) as connection:
            run = begin(connection, folder, gateway, tasks=tasks, timeout_s=TIMEOUT_S).run
        nemesis = Nemesis(home=home, cast=cast, gateway=gateway, rng=rng)
        nemesis.change_weather()
        for number, kind in enumerate(nemesis.plan(strikes), start=1):
            if rng.random() >= DOUBLE:
                nemesis.await_progress(run, round(0.9 * jobs * number / (strikes + 1)))
            nemesis.strike(kind)
        nemesis.make_peace()
        with connect(services.database_url) as connection:
            record = wait_for_the_end(connection, run, gateway, deadline_s=END_S)
            found = check(connection, run, record)
    battle = Battle(
        seed=seed,
        faults=nemesis.struck.total(),
        in_flight=nemesis.in_flight,
        took_s=time.monotonic() - started,
        found=found,
    )
    assert found.jobs >= jobs
    assert found.duplicates <= battle.in_flight
    assert found.unknown - found.lost_to_gateway <= battle.in_flight
    return battle


@contextmanager
def _battlefield(
    home: Path, folder: Path, tasks: int, seed: int
) -> Iterator[tuple[Services, SimulatedGateway, Cast]]:
    running = servers.start(home)
    services = Services(database_url=running.database_url, broker_url=running.broker_url)
    cast = Cast(services=services, logs=folder / "logs")
    try:
        upgrade(services.database_url)
        with launch(
            tasks=write_tasks(folder, tasks), seed=seed, latency_ms=LATENCY_MS, latency_sigma=0.5
        ) as gateway:
            try:
                yield services, gateway, cast
            finally:
                cast.end()
    finally:
        servers.stop(home)


HEAD = (
    "| seed | jobs | faults | spoilt answers | calls | `ok` | `error` | `unknown` | of them served | duplicates "
    "| in flight at the faults | tokens served | = `ok` | + `error` | + `unknown` | + silent | minutes |\n"
    "|" + "---:|" * 17
)


def line(battle: Battle) -> str:
    """A battle as a line of the table."""
    found = battle.found
    cells: list[Any] = [
        battle.seed,
        found.jobs,
        battle.faults,
        found.spoilt,
        found.calls,
        found.ok,
        found.error,
        found.unknown,
        found.served_unknown,
        found.duplicates,
        battle.in_flight,
        found.tokens_served,
        found.tokens_ok,
        found.tokens_error,
        found.tokens_unknown,
        found.tokens_silent,
    ]
    return "| " + " | ".join(f"{cell:,}" for cell in cells) + f" | {battle.took_s / 60:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Fight the seeds and print the table of docs/reliability.md."
    )
    parser.add_argument("--seeds", default="1-10", help="first-last")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--faults", type=int, default=30)
    options = parser.parse_args()
    os.environ[KEY] = SECRET
    # Told to end, it still stops what it has started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    first, _, last = options.seeds.partition("-")
    _say(HEAD)
    for seed in range(int(first), int(last or first) + 1):
        folder = Path(tempfile.mkdtemp(prefix=f"paretoken-nemesis-{seed}-"))
        # As root the servers may run as another user, who must reach their data.
        folder.chmod(0o755)
        try:
            battle = fight(
                seed, jobs=options.jobs, strikes=options.faults, home=folder / "home", folder=folder
            )
        except BaseException:
            sys.stderr.write(f"Seed {seed} failed; its logs stay in {folder}/logs\n")
            raise
        _say(line(battle))
        shutil.rmtree(folder, ignore_errors=True)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
