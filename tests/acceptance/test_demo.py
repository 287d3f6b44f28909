"""`paretoken demo` as a newcomer calls it: no server, no key, nothing set up. One demo serves all these tests."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from db.billable import billable
from db.connection import connect
from paretoken import servers
from paretoken.bills import read_bill
from paretoken.reconciliation import reconcile
from paretoken.settings import HOME
from tests.acceptance.conftest import CommandLine

README = Path(__file__).parents[2] / "README.md"
TASKS = 28
CALLS = {"baseline": 1, "cot": 1, "sc_k3": 3, "sc_k5": 5, "sc_k10": 10}

# The columns that the documentation promises; others may follow, none may be renamed.
COLUMNS = {
    "comparisons.csv": "task_id,winner,loser,tie,weight",
    "elo_table.csv": "strategy,elo,elo_se,elo_low,elo_high,n_tasks,win_rate,tie_share",
    "strategy_tokens.csv": (
        "strategy,trials,ok_trials,ok_calls,avg_input_tokens,avg_output_tokens,avg_first_tokens,"
        "avg_total_tokens,median_total_tokens,avg_retry_tokens,avg_cost_usd,unknown_usage"
    ),
    "elo_per_token.csv": (
        "strategy,family,tier,avg_total_tokens,elo,elo_per_1k,marginal_elo_per_1k,assessment"
    ),
}
LEDGER_FIELDS = (
    "run_id,source_platform,task_id,strategy,repeat,round,sample,attempt,model,input_tokens,output_tokens,"
    "total_tokens,cached_input_tokens,reasoning_tokens,latency_ms,status,error,content,try,turn,kind,purpose,"
    "retry_reason,used,http_status,response_id,first_byte_ms,finish_reason,usage,cost_usd,worker,started_at,"
    "finished_at"
)
RESULT_FIELDS = (
    "id,goal,strategy,repeat,latency_s,prompt_tokens,completion_tokens,total_tokens,estimated_cost,output,"
    "confirmed_success"
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, embedded: servers.Servers) -> Iterator[CommandLine]:
    """A user's machine with an empty home. `embedded` is asked for because it skips where no server can start."""
    folder = tmp_path_factory.mktemp("machine")
    home = folder / "home"
    yield CommandLine(folder=folder, environment={HOME: str(home)})
    servers.stop(home)


@pytest.fixture(scope="module")
def demo(machine: CommandLine) -> Path:
    """The folder that a demo wrote."""
    printed = machine.must("demo", "--out", "out")
    assert "Simulated answers" in printed
    return machine.folder / "out"


@pytest.fixture(scope="module")
def ledger(demo: Path) -> list[dict[str, Any]]:
    return lines(demo / "ledger.jsonl")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_ledger_is_what_the_gateway_served(demo: Path, ledger: list[dict[str, Any]]) -> None:
    served = [row for row in lines(demo / "served.jsonl") if row["served"]]
    names = ("response_id", "model", "input_tokens", "output_tokens", "total_tokens")
    assert sorted([row[name] for name in names] for row in ledger) == sorted(
        [row[name] for name in names] for row in served
    )
    for name in names[2:]:
        assert sum(row[name] for row in ledger) == sum(row[name] for row in served)
    # 28 tasks x (1 + 1 + 3 + 5 + 10) calls.
    assert len(ledger) == TASKS * sum(CALLS.values()) == 560


Bill = dict[tuple[str, str], list[float]]

# What somebody did to one line of the bill, as changes of requests, input tokens, output tokens and USD for one call.
FORGERIES = {
    "nothing": lambda line, call: line,
    "one call removed": lambda line, call: [a - b for a, b in zip(line, call, strict=True)],
    "one call doubled": lambda line, call: [a + b for a, b in zip(line, call, strict=True)],
    "one call repriced": lambda line, call: [*line[:3], line[3] + call[3]],
}


def bill_of(served: list[dict[str, Any]], ledger: list[dict[str, Any]]) -> tuple[Bill, Bill]:
    """What a provider would write by the gateway's own record, by day and model; and the first call in it."""
    costs = {row["response_id"]: row["cost_usd"] for row in ledger}
    lines: Bill = {}
    first: Bill = {}
    for row in served:
        day = datetime.fromtimestamp(row["started"]["wall"], UTC).date().isoformat()
        call = [1, row["input_tokens"], row["output_tokens"], costs[row["response_id"]]]
        line = lines.setdefault((day, row["model"]), [0, 0, 0, 0.0])
        lines[day, row["model"]] = [a + b for a, b in zip(line, call, strict=True)]
        first.setdefault((day, row["model"]), call)
    return lines, first


def test_a_bill_by_the_gateways_own_record_is_equal_and_a_forged_one_is_not(
    machine: CommandLine, demo: Path, ledger: list[dict[str, Any]]
) -> None:
    billed, first = bill_of([row for row in lines(demo / "served.jsonl") if row["served"]], ledger)
    (day, model), call = next(iter(first.items()))
    run_id, path = ledger[0]["run_id"], machine.folder / "bill.csv"
    database_url = json.loads(machine.must("servers", "start", "--json"))["database_url"]
    with connect(database_url) as connection:
        own = billable(connection, run_id, timezone="UTC")
        for name, forge in FORGERIES.items():
            forged = billed | {(day, model): forge(billed[day, model], call)}
            write_bill(path, forged)
            found = reconcile(read_bill(path, columns={}, models={}, timezone=ZoneInfo("UTC")), own)
            wrong = [line for line in found.lines if line.verdict == "differs"]
            assert [(str(line.day), line.model) for line in wrong] == (
                [] if name == "nothing" else [(day, model)]
            )
            for line in wrong:
                changed = [a - b for a, b in zip(forged[day, model], billed[day, model], strict=True)]
                assert list(vars(line.difference).values()) == pytest.approx(changed), name
    write_bill(path, billed)
    assert "the bill against the ledger" in machine.must("audit", run_id, "--bill", path)
    machine.must("servers", "stop")


def write_bill(path: Path, bill: Bill) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["date", "model", "requests", "input_tokens", "output_tokens", "cost_usd"])
        out.writerows([*key, *line[:3], f"{line[3]:.9f}"] for key, line in bill.items())


def test_every_trial_is_ok_with_as_many_calls_as_its_strategy_says(
    machine: CommandLine, demo: Path, ledger: list[dict[str, Any]]
) -> None:
    run_id = ledger[0]["run_id"]
    state = json.loads(machine.must("status", run_id, "--json"))
    assert (state["state"], state["trials"]) == ("finished", {"ok": TASKS * len(CALLS)})
    per_trial = Counter((row["strategy"], row["task_id"]) for row in ledger)
    assert per_trial == {(name, task): CALLS[name] for name, task in per_trial}
    assert len(per_trial) == TASKS * len(CALLS)
    samples = {(row["task_id"], row["sample"]) for row in ledger if row["strategy"] == "sc_k10"}
    assert {sample for _, sample in samples} == set(range(1, 11))


def test_avg_total_tokens_is_the_sum_over_a_trials_calls_averaged_over_tasks(
    demo: Path, ledger: list[dict[str, Any]]
) -> None:
    rows = table(demo / "strategy_tokens.csv")
    assert [row["strategy"] for row in rows] == list(CALLS)
    for row in rows:
        tokens = [call["total_tokens"] for call in ledger if call["strategy"] == row["strategy"]]
        assert float(row["avg_total_tokens"]) == pytest.approx(sum(tokens) / TASKS)
        assert int(row["ok_calls"]) == len(tokens) == TASKS * CALLS[row["strategy"]]
        assert float(row["avg_retry_tokens"]) == 0


@pytest.mark.parametrize("name", COLUMNS)
def test_tables_have_the_promised_columns_in_order(demo: Path, name: str) -> None:
    header = (demo / name).read_text().splitlines()[0].split(",")
    assert promised(header, COLUMNS[name]) == COLUMNS[name]


def promised(names: Iterable[str], promise: str) -> str:
    """Those of the names that are promised; there may be others between them."""
    return ",".join(name for name in names if name in promise.split(","))


def test_json_files_have_the_promised_fields(demo: Path, ledger: list[dict[str, Any]]) -> None:
    results = json.loads((demo / "arena_results.json").read_text())
    assert len(results) == TASKS * len(CALLS)
    assert all(promised(row, RESULT_FIELDS) == RESULT_FIELDS for row in results)
    assert all(promised(row, LEDGER_FIELDS) == LEDGER_FIELDS for row in ledger)


def test_the_readme_shows_this_scaling_table(demo: Path) -> None:
    """The simulated gateway answers the same for a seed, so the printed table is the one that a reader will see."""
    text = (demo / "scaling_table.md").read_text()
    assert "Simulated answers" in text
    rows = [
        cells(line) for line in text.splitlines() if line.startswith(tuple(f"| {name} |" for name in CALLS))
    ]
    assert [row[0] for row in rows] == list(CALLS)
    shown = [[row[column] for column in (0, 3, 4, 5, 7, 8)] for row in rows]
    assert [cells(line) for line in README.read_text().splitlines() if cells(line) in shown] == shown


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_no_file_is_left_unfinished(demo: Path) -> None:
    assert [path.name for path in demo.iterdir() if path.name.startswith(".")] == []


def test_the_demo_stops_what_it_started(machine: CommandLine, demo: Path) -> None:
    state = servers.status(machine.folder / "home")
    assert not state.postgres.running
    assert not state.valkey.running


def test_export_gives_the_same_ledger_again(
    machine: CommandLine, demo: Path, ledger: list[dict[str, Any]]
) -> None:
    printed = machine.must("export", ledger[0]["run_id"])
    assert printed == (demo / "ledger.jsonl").read_text()
