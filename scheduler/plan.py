"""From a loaded experiment to rows: run, tasks, strategies, trials and opening jobs in one transaction.

Opening jobs come from a cross join inside Postgres: a million of them cost neither memory nor messages.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from db.connection import Connection
from db.queries import SQL
from scheduler.errors import RunChanged
from scheduler.experiment import LoadedExperiment, PlannedStrategy, identity
from workers.reservation import prompt_bytes
from workers.strategies import ModelCall, TaskView

SIMULATED_ENDPOINT = "simulated"

_PROBE_BYTES = 1000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run as it stands in the database after planning."""

    run: int
    run_id: str
    trials: int
    jobs: int
    continued: bool
    """The run was there already, from the same experiment: it goes on where it stopped."""
    warnings: Sequence[str]


def plan(
    connection: Connection, loaded: LoadedExperiment, *, key_fingerprint: str, base_url: str | None
) -> Plan:
    """Write the run, or find it there already.

    `base_url` is where the gateway answers now: the experiment's own, or the simulated one's address.

    Raises:
        RunChanged: the run exists and was planned from another experiment.
    """
    with connection.transaction():
        row = connection.execute(
            SQL["insert_run"],
            {
                "run_id": loaded.run_id,
                "source_platform": loaded.settings.source_platform,
                "base_url": base_url,
                "experiment": Jsonb(loaded.document()),
                "experiment_hash": loaded.experiment_hash,
                "prompts_hash": loaded.prompts_hash,
                "key_fingerprint": key_fingerprint,
                "simulated": loaded.settings.gateway.simulate,
            },
        ).fetchone()
        if row is None:
            return _continue(connection, loaded, key_fingerprint=key_fingerprint, base_url=base_url)
        run = row["id"]
        _insert_tasks(connection, run, loaded)
        _insert_strategies(connection, run, loaded.strategies)
        _insert_lanes(connection, run, loaded, key_fingerprint=key_fingerprint, base_url=base_url)
        trials = connection.execute(
            SQL["insert_trials"], {"run": run, "repeats": loaded.settings.repeats}
        ).rowcount
        jobs = connection.execute(SQL["insert_opening_jobs"], {"run": run, **_openings(loaded)}).rowcount
    # Fresh statistics: the dispatcher's first plans must not be those of an empty table.
    connection.execute("ANALYZE job, trial, task")
    return Plan(
        run=run, run_id=loaded.run_id, trials=trials, jobs=jobs, continued=False, warnings=loaded.warnings
    )


def _continue(
    connection: Connection, loaded: LoadedExperiment, *, key_fingerprint: str, base_url: str | None
) -> Plan:
    found = connection.execute(SQL["planned_run"], {"run_id": loaded.run_id}).fetchone()
    assert found is not None
    if found["experiment"].get("imported"):
        raise RunChanged(
            f"Run {loaded.run_id!r} was imported from a ledger. Give the new one its own run_id."
        )
    if found["experiment_hash"] != loaded.experiment_hash:
        new = json.loads(json.dumps(loaded.document()))
        changes = differences(identity(found["experiment"]), identity(new))
        shown = "; ".join(changes[:5]) + ("; …" if len(changes) > 5 else "")
        raise RunChanged(
            f"Run {loaded.run_id!r} was planned from another experiment: {shown}. "
            "Change it back, or give the new one its own run_id."
        )
    warnings = list(loaded.warnings)
    if found["key_fingerprint"] != key_fingerprint:
        warnings.append("The gateway key is another one than this run was last started with.")
        _insert_lanes(connection, found["id"], loaded, key_fingerprint=key_fingerprint, base_url=base_url)
        connection.execute(SQL["change_key"], {"run": found["id"], "key_fingerprint": key_fingerprint})
    connection.execute(
        SQL["adjust_run"], {"run": found["id"], "base_url": base_url, "experiment": Jsonb(loaded.document())}
    )
    counts = connection.execute(
        "SELECT (SELECT count(*) FROM trial WHERE run = %(run)s) AS trials, "
        "(SELECT count(*) FROM job WHERE run = %(run)s) AS jobs",
        {"run": found["id"]},
    ).fetchone()
    assert counts is not None
    return Plan(run=found["id"], run_id=loaded.run_id, continued=True, warnings=warnings, **counts)


def _insert_lanes(
    connection: Connection, run: int, loaded: LoadedExperiment, *, key_fingerprint: str, base_url: str | None
) -> None:
    endpoint = SIMULATED_ENDPOINT if loaded.settings.gateway.simulate else base_url
    for model in loaded.models:
        connection.execute(
            SQL["insert_lane"],
            {"run": run, "endpoint": endpoint, "key_fingerprint": key_fingerprint, "model": model},
        )


def differences(old: Any, new: Any, field: str = "") -> Sequence[str]:
    """Each place where two JSON documents differ, as one short line."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return [
            line
            for key in sorted(old.keys() | new.keys())
            for line in differences(old.get(key), new.get(key), f"{field}.{key}" if field else key)
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line
            for number, pair in enumerate(zip(old, new, strict=True), start=1)
            for line in differences(*pair, f"{field}[{number}]")
        ]
    if old == new:
        return []
    if isinstance(old, list) and isinstance(new, list):
        return [f"{field}: {len(old)} entries, now {len(new)}"]
    return [f"{field}: {_short(old)}, now {_short(new)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def _insert_tasks(connection: Connection, run: int, loaded: LoadedExperiment) -> None:
    contents = {
        task.file_hashes[name]: content for task in loaded.tasks for name, content in task.files.items()
    }
    for sha256, content in sorted(contents.items()):
        connection.execute(SQL["insert_file"], {"sha256": sha256, "content": content})
    columns = (
        "run, task_id, position, category, difficulty, weight, goal, files, reference, checks, prompt_bytes"
    )
    with connection.cursor().copy(f"COPY task ({columns}) FROM STDIN") as copy:
        for position, task in enumerate(loaded.tasks, start=1):
            line = task.line
            copy.write_row(
                (
                    run,
                    line.id,
                    position,
                    line.category,
                    str(line.difficulty),
                    line.weight,
                    line.goal,
                    Jsonb(task.file_hashes),
                    Jsonb(line.reference),
                    Jsonb(line.checks),
                    task.prompt_bytes,
                )
            )


def _insert_strategies(connection: Connection, run: int, strategies: Sequence[PlannedStrategy]) -> None:
    for position, planned in enumerate(strategies, start=1):
        connection.execute(
            SQL["insert_strategy"],
            {
                "run": run,
                "name": planned.name,
                "position": position,
                "kind": planned.strategy.kind,
                "family": planned.family,
                "tier": planned.tier,
                "params": Jsonb(planned.strategy.model_dump(mode="json")),
            },
        )


def _openings(loaded: LoadedExperiment) -> dict[str, list[Any]]:
    """The opening calls of every strategy without the task's own words, as parallel arrays."""
    rows = [
        (planned.name, call, copies, loaded.prices.get(call.model))
        for planned in loaded.strategies
        for call, copies in _opening(planned)
    ]
    return {
        "strategies": [name for name, _, _, _ in rows],
        "samples": [call.sample for _, call, _, _ in rows],
        "models": [call.model for _, call, _, _ in rows],
        "prompt_bytes": [prompt_bytes(call.messages, call.extra) for _, call, _, _ in rows],
        "task_copies": [copies for _, _, copies, _ in rows],
        "max_tokens": [call.max_tokens for _, call, _, _ in rows],
        "input_usd": [price and price.input_usd_per_1m / 1e6 for _, _, _, price in rows],
        "output_usd": [price and price.output_usd_per_1m / 1e6 for _, _, _, price in rows],
    }


def _opening(planned: PlannedStrategy) -> Sequence[tuple[ModelCall, int]]:
    """Each opening call for an empty task, and how often its prompt repeats the task: a user's own prompt may."""
    empty = planned.strategy.opening(TaskView(task_id="", goal=""))
    probe = planned.strategy.opening(TaskView(task_id="", goal="x" * _PROBE_BYTES))
    return [
        (call, max(1, round((prompt_bytes(grown.messages) - prompt_bytes(call.messages)) / _PROBE_BYTES)))
        for call, grown in zip(empty, probe, strict=True)
    ]
