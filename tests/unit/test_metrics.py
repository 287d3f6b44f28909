"""Metrics: the page names what is told, labels are bounded, unknown is never 0."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric

from analysis.usage import Usage
from scheduler.metrics import LaneState, SchedulerMetrics, Snapshot, families
from scheduler.reaper import Rescued
from workers.gateway import Disposition, Outcome
from workers.limits import LimiterView
from workers.metrics import MOST_VALUES, OTHER, LabelValues, WorkerMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
VIEW = LimiterView(
    requests_level=None,
    tokens_level=None,
    in_flight=3,
    waiting=1,
    concurrency=8,
    cool_down_until=datetime(2020, 1, 1, tzinfo=UTC),
    backlog_s=0.5,
    tokens_per_estimated_token=1.0,
)
SNAPSHOT = Snapshot(
    database_up=True,
    broker_up=True,
    runs={"running": 1},
    jobs={"pending": 7},
    workers=2,
    queue_messages=4,
    lanes=[LaneState(lane=5, model="m", hold_s=0.0, view=VIEW)],
)


def outcome(status: str = "ok", **changes: object) -> Outcome:
    values = {
        "status": status,
        "disposition": Disposition.USED,
        "usage": Usage(input_tokens=10, output_tokens=5, total_tokens=15),
        "latency_ms": 1500,
        "first_byte_ms": 200,
    }
    return Outcome(**values | changes)  # type: ignore[arg-type]


@pytest.fixture
def worker() -> WorkerMetrics:
    metrics = WorkerMetrics()
    metrics.watch(in_flight=lambda: 3, waiting=lambda: 2, lease_left_s=lambda: 29.5)
    return metrics


def value(metrics: WorkerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"paretoken_{name}", labels)


def told(found: Iterable[Metric]) -> set[tuple[str, str, tuple[str, ...]]]:
    """(name, type, labels) of our metrics; a counter by the name of its samples."""
    rows = set()
    for metric in found:
        if metric.name.startswith("paretoken_"):
            labels = {label for sample in metric.samples for label in sample.labels} - {"le"}
            name = metric.name + ("_total" if metric.type == "counter" else "")
            rows.add((name, metric.type, tuple(sorted(labels))))
    return rows


def documented(heading: str) -> set[tuple[str, str, tuple[str, ...]]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?)\| ", section, re.MULTILINE)
    return {(name, kind, tuple(sorted(re.findall(r"`(\w+)`", labels)))) for name, kind, labels in rows}


def test_the_page_names_all_that_a_worker_tells(worker: WorkerMetrics) -> None:
    worker.settled("m", outcome(), cost_usd=0.01)
    worker.admitted("m", wait_s=0.1, granted=True)
    assert told(worker.registry.collect()) == documented("A worker")


def test_the_page_names_all_that_a_scheduler_tells() -> None:
    metrics = SchedulerMetrics(database_url="", broker_url="")
    metrics.ticked(dispatched=1, finished=0, rescued=Rescued(from_workers=2))
    found = told(metrics.registry.collect()) | told(families(SNAPSHOT, LabelValues()))
    assert found == documented("The scheduler")
    assert metrics.registry.get_sample_value("paretoken_jobs_rescued_total", {"lost": "worker"}) == 2
    # What is yet to happen stands there as 0, so that its first time is seen as a rise.
    assert metrics.registry.get_sample_value("paretoken_jobs_rescued_total", {"lost": "message"}) == 0


def test_one_that_stands_by_asks_no_server() -> None:
    metrics = SchedulerMetrics(database_url="", broker_url="")
    assert {name for name, _, _ in told(metrics.registry.collect())} == {
        "paretoken_scheduler_leading",
        "paretoken_jobs_dispatched_total",
        "paretoken_jobs_rescued_total",
        "paretoken_runs_finished_total",
    }


@pytest.mark.parametrize(
    ("seen", "names"),
    [
        (Snapshot(database_up=False, broker_up=False), {"database_up", "broker_up"}),
        (Snapshot(database_up=False, broker_up=True), {"database_up", "broker_up", "queue_messages"}),
    ],
)
def test_what_cannot_be_asked_is_left_out(seen: Snapshot, names: set[str]) -> None:
    assert {metric.name.removeprefix("paretoken_") for metric in families(seen, LabelValues())} == names


def test_a_worker_adds_up_what_is_known_and_counts_what_is_not(worker: WorkerMetrics) -> None:
    worker.settled("m", outcome(), cost_usd=0.25)
    worker.settled("m", outcome(usage=Usage()), cost_usd=None)
    worker.settled("m", outcome("error", error="rate_limit", usage=Usage(), latency_ms=None), cost_usd=None)
    assert value(worker, "calls_total", model="m", status="ok", error="none") == 2
    assert value(worker, "calls_total", model="m", status="error", error="rate_limit") == 1
    assert value(worker, "tokens_total", model="m", direction="input") == 10
    assert value(worker, "tokens_total", model="m", direction="output") == 5
    assert value(worker, "cost_usd_total", model="m") == 0.25
    assert value(worker, "calls_without_usage_total", model="m") == 1
    assert value(worker, "calls_without_cost_total", model="m") == 1
    assert value(worker, "call_latency_seconds_sum", model="m", status="ok") == 3.0
    assert value(worker, "call_latency_seconds_count", model="m", status="error") is None
    assert value(worker, "calls_in_flight") == 3
    assert value(worker, "worker_lease_seconds") == 29.5


def test_labels_have_a_bounded_number_of_bounded_values() -> None:
    values = LabelValues()
    assert values("x" * 101) == OTHER
    assert [values(f"m{number}") for number in range(MOST_VALUES)] == [f"m{n}" for n in range(MOST_VALUES)]
    assert values("one more") == OTHER
    assert values("m0") == "m0"
