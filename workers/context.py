"""What a worker knows about a run and its tasks: read from Postgres once, then kept."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool

from analysis.prices import Price
from db.connection import AsyncConnection
from db.queries import SQL
from db.reader import Row
from db.work import Claimed, pause_run
from workers.checks import Check, check
from workers.gateway import Request
from workers.judges import Judge, draw_of, judge
from workers.keys import SIMULATED_KEY, Key, read_key
from workers.limits import Limits
from workers.settling import Retries
from workers.strategies import ModelCall, Strategy, TaskView, strategy
from workers.strategies.command import Command

log = logging.getLogger(__name__)

_MOST_RUNS = 100
_MOST_TASKS = 2_000
_MOST_FILES = 200
_FRESH_S = 10.0


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """A run as its calls need it."""

    run: int
    run_id: str
    base_url: str
    endpoint: str
    """What shares a rate limit under one key and model: the base URL, or `simulated`."""
    key_env: str | None
    """The variable with the key; None for the simulated gateway."""
    timeout_s: float
    stream: bool
    seed: int | None
    limits: Limits
    retries: Retries
    prices: Mapping[str, Price]
    strategies: Mapping[int, Strategy]
    reruns_on_failed_check: int
    allow_commands: bool
    judges: Mapping[str, Judge] = field(default_factory=dict)

    @cached_property
    def key(self) -> Key:
        """Raises `KeyUnusable` where this worker has none. Only calls need it: checks and verdicts do without."""
        return SIMULATED_KEY if self.key_env is None else read_key(self.key_env)

    def command(self, strategy: int | None) -> Command | None:
        """This strategy, if it is a program that makes its own calls."""
        found = None if strategy is None else self.strategies[strategy]
        return found if isinstance(found, Command) else None

    def deadline_s(self, strategy: int | None) -> float:
        """Of one call of this strategy, or of a judge's."""
        return self.timeout_s if strategy is None else self.strategies[strategy].deadline_s(self.timeout_s)

    def lane_name(self, model: str) -> str:
        return f"{self.endpoint}:{self.key.fingerprint}:{model}"


@dataclass(frozen=True, kw_only=True)
class TaskContext:
    """A task: what a strategy may see, and apart from it the checks."""

    view: TaskView
    check_specs: Sequence[Mapping[str, Any]]
    files: Mapping[str, bytes]

    @cached_property
    def checks(self) -> Sequence[Check]:
        return [check(spec) for spec in self.check_specs]


class Contexts:
    """The process's memory of runs, tasks and files; what was not used for longest is forgotten."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool
        self._runs: OrderedDict[int, tuple[float, RunContext]] = OrderedDict()
        self._reading_run = asyncio.Lock()
        self._tasks: OrderedDict[int, TaskContext] = OrderedDict()
        self._files: OrderedDict[str, bytes] = OrderedDict()

    async def run(self, run: int) -> RunContext:
        """The run, at most some seconds old: limits and the like may change while it is at work."""
        if (fresh := self._fresh(run)) is None:
            # One reads for all: hundreds of calls find the same run stale at the same moment.
            async with self._reading_run:
                fresh = self._fresh(run) or await self._read_run(run)
        return fresh

    async def run_or_pause(self, run: int) -> RunContext | None:
        """The run; None where this version cannot read it: a person has to see to it then."""
        try:
            return await self.run(run)
        except psycopg.Error:
            raise
        except Exception as error:
            log.exception("Run %d cannot be read.", run)
            reason = f"A worker cannot read it: {type(error).__name__}: {error}. See the worker's log."
            async with self._pool.connection() as connection:
                await pause_run(connection, run=run, reason=reason)
            return None

    def _fresh(self, run: int) -> RunContext | None:
        read_at, known = self._runs.get(run, (0.0, None))
        return known if asyncio.get_running_loop().time() - read_at <= _FRESH_S else None

    async def _read_run(self, run: int) -> RunContext:
        read_at = asyncio.get_running_loop().time()
        async with self._pool.connection() as connection:
            row = await (await connection.execute(SQL["read_run"], {"run": run})).fetchone()
            rows = await (await connection.execute(SQL["read_strategies"], {"run": run})).fetchall()
        assert row is not None
        context = _run_context(row, rows)
        _remember(self._runs, {run: (read_at, context)}, _MOST_RUNS)
        return context

    async def tasks(self, tasks: Sequence[int]) -> Mapping[int, TaskContext]:
        # What is found is kept apart from the shared memory: while this waits for Postgres, others may forget it.
        found = {task: self._tasks[task] for task in tasks if task in self._tasks}
        missing = sorted(set(tasks) - found.keys())
        if missing:
            async with self._pool.connection() as connection:
                rows = await (await connection.execute(SQL["read_tasks"], {"tasks": missing})).fetchall()
                files = await self._read_files(
                    connection, {sha256 for row in rows for sha256 in row["files"].values()}
                )
            found |= {row["id"]: _task_context(row, files) for row in rows}
        _remember(self._tasks, found, _MOST_TASKS)
        return found

    async def _read_files(self, connection: AsyncConnection, hashes: set[str]) -> dict[str, bytes]:
        found = {sha256: self._files[sha256] for sha256 in hashes if sha256 in self._files}
        missing = sorted(hashes - found.keys())
        if missing:
            cursor = await connection.execute(SQL["read_files"], {"hashes": missing})
            found |= {row["sha256"]: row["content"] for row in await cursor.fetchall()}
        _remember(self._files, found, _MOST_FILES)
        return found


def _remember(kept: OrderedDict[Any, Any], found: Mapping[Any, Any], most: int) -> None:
    """Keep what was just used, and forget what was not used for longest."""
    for name, value in found.items():
        kept[name] = value
        kept.move_to_end(name)
    while len(kept) > most:
        kept.popitem(last=False)


def _run_context(row: Row, strategies: Sequence[Row]) -> RunContext:
    experiment = row["experiment"]
    gateway = experiment["gateway"]
    return RunContext(
        run=row["id"],
        run_id=row["run_id"],
        base_url=row["base_url"],
        endpoint="simulated" if row["simulated"] else row["base_url"],
        key_env=None if row["simulated"] else gateway["api_key_env"],
        timeout_s=gateway["timeout_s"],
        stream=gateway["stream"],
        seed=experiment["seed"],
        limits=Limits(**experiment["limits"]),
        retries=Retries(**experiment["retries"]),
        prices={model: Price(**price) for model, price in experiment["prices"].items()},
        strategies={row["id"]: strategy(row["kind"], row["params"]) for row in strategies},
        reruns_on_failed_check=experiment["reruns_on_failed_check"],
        allow_commands=experiment["allow_commands"],
        judges={section["name"]: stored_judge(section) for section in experiment["judges"]},
    )


def _task_context(row: Row, files: Mapping[str, bytes]) -> TaskContext:
    contents = {name: files[sha256] for name, sha256 in row["files"].items()}
    return TaskContext(
        view=TaskView(
            task_id=row["task_id"],
            goal=row["goal"],
            category=row["category"],
            files={name: content.decode("utf-8", "replace") for name, content in contents.items()},
        ),
        check_specs=row["checks"],
        files=contents,
    )


def request_of(job: Claimed, run: RunContext, task: TaskContext) -> Request:
    """The request of a job: stored with it, or made by its judge, or in round 1 by the strategy's opening."""
    stored = job.request or stored_request(_unstored_call(job, run, task))
    return Request(
        model=stored["model"],
        messages=stored["messages"],
        max_tokens=stored["max_tokens"],
        temperature=stored["temperature"],
        json_object=stored["response_format"] == "json",
        json_keys=stored["json_keys"],
        extra=stored["extra"],
        seed=None if run.seed is None else _seed(run.seed, job),
        request_id=f"{job.job}:{job.attempt + 1}",
    )


def _unstored_call(job: Claimed, run: RunContext, task: TaskContext) -> ModelCall:
    if job.question is None:
        assert job.strategy is not None
        return run.strategies[job.strategy].opening(task.view)[job.sample - 1]
    name, answers = job.question.judge, job.question.answers
    draw = draw_of(seed=run.seed, task_id=task.view.task_id, repeat=job.repeat, judge=name)
    shown = run.judges[name].showings(len(answers), draw)[job.sample - 1]
    return run.judges[name].ask(task.view, [answers[place] for place in shown])


def stored_judge(section: Mapping[str, Any]) -> Judge:
    """A judge as a run's stored experiment has it."""
    return judge(
        section["kind"], {key: value for key, value in section.items() if key not in ("name", "kind")}
    )


def stored_request(call: ModelCall) -> dict[str, Any]:
    """What is kept of a call of a later round (JSON types)."""
    return {
        "messages": [dict(message) for message in call.messages],
        "model": call.model,
        "max_tokens": call.max_tokens,
        "temperature": call.temperature,
        "response_format": call.response_format,
        "json_keys": list(call.json_keys),
        "extra": dict(call.extra),
    }


def _seed(seed: int, job: Claimed) -> int:
    """The same for the same slot in every run of the experiment; another for another repeat, try or sample."""
    return seed + 1_000_003 * job.repeat + 10_007 * job.try_ + 101 * job.round + job.sample
