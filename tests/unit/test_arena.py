"""The arena's tasks: their right answers follow from the CSV, pass their checks, and near misses do not."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.errors import ExperimentInvalid
from scheduler.experiment import load
from tests.unit.arena_truth import ARENA, birds, truth
from workers.checks import Check, CheckContext, check, run_checks

TASKS = {
    task["id"]: task
    for task in map(json.loads, (ARENA / "tasks.jsonl").read_text(encoding="utf-8").splitlines())
}
CATEGORIES = {"read", "structured_output", "multi_step_planning", "exception_handling"}
RIGHT_VALUES = ("value", "label", "text", "pattern", "fields", "rows", "result", "columns")
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def context(task: dict[str, Any]) -> CheckContext:
    return CheckContext(files={name: (ARENA / name).read_bytes() for name in task["files"]})


def checks(task: dict[str, Any]) -> list[Check]:
    return [check(spec) for spec in task["checks"]]


def success(task: dict[str, Any], answer: str) -> bool | None:
    return run_checks(checks(task), answer, context(task))[0]


def test_enough_tasks_of_every_category_and_difficulty() -> None:
    assert len(TASKS) >= 24
    by_category = Counter(task["category"] for task in TASKS.values())
    assert set(by_category) == CATEGORIES
    assert min(by_category.values()) >= 6
    by_difficulty = Counter(task["difficulty"] for task in TASKS.values())
    assert set(by_difficulty) == {"easy", "medium", "hard"}
    assert min(by_difficulty.values()) >= 6


def test_the_extract_is_the_study_year_2009() -> None:
    assert birds["year"].unique().to_list() == [2009]
    assert birds.height == 120


def test_the_experiment_loads_as_five_tiers_of_one_family() -> None:
    loaded = load(ARENA / "experiment.toml")
    assert [(s.name, s.family, s.tier, s.strategy.calls) for s in loaded.strategies] == [
        ("baseline", "sampling", 1, (1, 1)),
        ("cot", "sampling", 2, (1, 1)),
        ("sc_k3", "sampling", 3, (3, 3)),
        ("sc_k5", "sampling", 4, (5, 5)),
        ("sc_k10", "sampling", 5, (10, 10)),
    ]
    assert [task.line.id for task in loaded.tasks] == list(TASKS)
    assert not loaded.warnings


def test_the_real_experiment_is_the_same_but_for_what_the_user_fills_in(tmp_path: Path) -> None:
    with pytest.raises(ExperimentInvalid, match=r"<model>.*placeholder"):
        load(ARENA / "taotoken.toml")
    filled = (ARENA / "taotoken.toml").read_text().replace("<model>", "m")
    filled = re.sub('"<price[^>]*>"', "0.5", filled).replace("tasks.jsonl", str(ARENA / "tasks.jsonl"))
    (tmp_path / "filled.toml").write_text(filled)
    real, simulated = load(tmp_path / "filled.toml"), load(ARENA / "experiment.toml")
    assert [s.name for s in real.strategies] == [s.name for s in simulated.strategies]
    assert real.settings.analysis == simulated.settings.analysis
    assert real.settings.gateway.base_url == "https://taotoken.net/api"


@each_task
def test_right_values_follow_from_the_data(task: dict[str, Any]) -> None:
    given = [{name: spec[name] for name in RIGHT_VALUES if name in spec} for spec in task["checks"]]
    assert given == [dict(values) for values in truth()[task["id"]]]


@each_task
def test_reference_passes(task: dict[str, Any]) -> None:
    passed, results = run_checks(checks(task), task["reference"], context(task))
    assert passed, results


@each_task
def test_no_answer_and_an_excuse_fail_every_check(task: dict[str, Any]) -> None:
    for answer in ("", "  \n", "I cannot tell from this file."):
        _, results = run_checks(checks(task), answer, context(task))
        assert [result["passed"] for result in results] == [False] * len(results)


@each_task
def test_near_misses_fail(task: dict[str, Any]) -> None:
    misses = list(near_misses(task))
    assert len(misses) >= 2
    assert [miss for miss in misses if success(task, miss)] == []


@each_task
def test_a_reference_of_another_task_fails(task: dict[str, Any]) -> None:
    others = [other["reference"] for other in TASKS.values() if other["id"] != task["id"]]
    assert [answer for answer in others if success(task, answer)] == []


def near_misses(task: dict[str, Any]) -> Iterator[str]:
    """The reference with one thing wrong."""
    reference = task["reference"]
    if task["id"] in WRONG_SQL:
        for right, wrong in WRONG_SQL[task["id"]]:
            assert right in reference
            yield reference.replace(right, wrong, 1)
    elif reference.startswith(("{", "[")):
        yield from (json.dumps(value) for value in spoilt_values(json.loads(reference)))
    else:
        yield from spoilt_text(reference)


def spoilt_values(value: Any) -> Iterator[Any]:
    """Copies of a JSON value with one leaf changed, or one member missing. A plan's wording is free."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield {k: v for k, v in value.items() if k != key}
            if key != "plan":
                yield from (value | {key: spoilt} for spoilt in spoilt_values(item))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value[:index] + value[index + 1 :]
            yield from ([*value[:index], spoilt, *value[index + 1 :]] for spoilt in spoilt_values(item))
    elif isinstance(value, float):
        yield value + 0.1
    else:
        yield {int: lambda: value + 1, str: lambda: value + "s", type(None): lambda: 0}[type(value)]()


def spoilt_text(text: str) -> Iterator[str]:
    """Copies of a text with one number off by one in its last digit, or one line missing."""
    for found in re.finditer(r"\d+(?:\.\d+)?", text):
        decimals = len(found[0].partition(".")[2])
        changed = f"{float(found[0]) + 10**-decimals:.{decimals}f}"
        yield text[: found.start()] + changed + text[found.end() :]
    lines = text.split("\n")
    separators = [i for i, line in enumerate(lines) if set(line) <= set("|- ")]
    for index in range(len(lines)):
        if index not in separators:
            yield "\n".join(lines[:index] + lines[index + 1 :])
    if "e" in text:
        yield text.replace("e", "x")


WRONG_SQL = {
    "plan-sql-table": [
        ("COUNT(*), ROUND", "COUNT(sex), ROUND"),
        (", 2)", ", 0)"),
        ("GROUP BY species", "WHERE sex IS NOT NULL GROUP BY species"),
        ("AS total", "AS sum_n"),
        ("SELECT SUM(n)", "SELECT MAX(n)"),
        ("SELECT COUNT(*) AS row_count FROM species_summary;\n", ""),
        ("WHERE s.n <>", "WHERE s.n ="),
        ("CREATE TABLE species_summary", "CREATE TABLE summary"),
    ],
    "plan-sql-view": [
        (" AND sex IS NOT NULL", ""),
        ("ORDER BY island", "ORDER BY n"),
        ("AS n FROM", "AS count FROM"),
        ("complete_penguins AS\n", "complete AS\n"),
        ("COUNT(*) AS n FROM complete_penguins", "COUNT(*) AS n FROM penguins_2009"),
    ],
}
