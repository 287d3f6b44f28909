"""What a worker knows about a run and its tasks: read from Postgres once, then kept."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from psycopg_pool import AsyncConnectionPool

from analysis.prices import Price
from db.connection import AsyncConnection, Row
from db.queries import SQL
from db.work import Claimed
from workers.checks import Check, check
from workers.gateway import Request
from workers.judges import Judge, draw_of, judge
from workers.keys import SIMULATED_KEY, Key, read_key
from workers.limiter import Limits
from workers.settling import Retries
from workers.strategies import ModelCall, Strategy, TaskView, strategy

_MOST_TASKS = 2_000
_MOST_FILES = 200


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """A run as its calls need it."""

    run: int
    run_id: str
    base_url: str
    endpoint: str
    """What shares a rate limit under one key and model: the base URL, or `simulated`."""
    key: Key
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
    """The process's memory of runs, tasks and files; the oldest tasks and files are forgotten."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool
        self._runs: dict[int, RunContext] = {}
        self._tasks: OrderedDict[int, TaskContext] = OrderedDict()
        self._files: OrderedDict[str, bytes] = OrderedDict()

    async def run(self, run: int) -> RunContext:
        """Raises `KeyUnusable` where this worker has no key for the run."""
        if run not in self._runs:
            async with self._pool.connection() as connection:
                row = await (await connection.execute(SQL["read_run"], {"run": run})).fetchone()
                rows = await (await connection.execute(SQL["read_strategies"], {"run": run})).fetchall()
            assert row is not None
            self._runs[run] = _run_context(row, rows)
        return self._runs[run]

    async def tasks(self, tasks: Sequence[int]) -> Mapping[int, TaskContext]:
        missing = [task for task in dict.fromkeys(tasks) if task not in self._tasks]
        if missing:
            async with self._pool.connection() as connection:
                rows = await (await connection.execute(SQL["read_tasks"], {"tasks": missing})).fetchall()
                await self._read_files(
                    connection, {sha256 for row in rows for sha256 in row["files"].values()}
                )
            for row in rows:
                self._tasks[row["id"]] = _task_context(row, self._files)
        found = {task: self._tasks[task] for task in tasks}
        _forget(self._tasks, _MOST_TASKS)
        _forget(self._files, _MOST_FILES)
        return found

    async def _read_files(self, connection: AsyncConnection, hashes: set[str]) -> None:
        missing = sorted(hashes - self._files.keys())
        if missing:
            cursor = await connection.execute(SQL["read_files"], {"hashes": missing})
            for row in await cursor.fetchall():
                self._files[row["sha256"]] = row["content"]


def _forget(kept: OrderedDict[Any, Any], most: int) -> None:
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
        key=SIMULATED_KEY if row["simulated"] else read_key(gateway["api_key_env"]),
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
