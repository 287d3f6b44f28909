"""A run with judges from the command line: what is said before, what is shown after, and what people say instead."""

import csv
import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import CommandLine
from tests.experiments import write_experiment

STRATEGIES = "".join(
    f'[[strategies]]\nname = "{name}"\nkind = "{kind}"\n'
    for name, kind in (("plain", "single"), ("cot", "chain_of_thought"))
)
JUDGES = """
[[judges]]
name = "referee"
kind = "pairwise"
model = "sim-large"

[[judges]]
name = "biased"
kind = "pairwise"
model = "sim-judge-a"

[[judges]]
name = "deaf"
kind = "listwise"
model = "sim-judge-noise"

[prices."sim-large"]
input_usd_per_1m = 2.0
output_usd_per_1m = 8.0
"""


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.timeout(600)
def test_a_judged_run_and_what_people_say_of_it(paretoken: CommandLine) -> None:
    path = write_experiment(paretoken.folder, tasks=6, strategies=STRATEGIES + JUDGES)
    done = paretoken("run", path, "--no-page", "--out", paretoken.folder / "out", "--workers", "1")
    assert done.returncode == 0, done.stderr
    # One pair in both orders on each of six tasks; two rankings of each.
    assert "Judge referee: up to 12 calls when the trials are over, at most $0." in done.stderr
    assert "Judge deaf: up to 12 calls when the trials are over, cost unknown (no price)." in done.stderr
    assert "Compared by the judge referee." in done.stdout
    assert "Judge biased prefers what is shown first: position bias 1.00, where 0 is none." in done.stdout
    assert "Judge deaf gave no verdict: 12 of its 12 replies cannot be read, 0 never came." in done.stdout
    judges = {row["judge"]: row for row in table(paretoken.folder / "out" / "judges.csv")}
    assert (judges["referee"]["verdicts"], judges["referee"]["unparsable"]) == ("6", "0")
    assert (judges["biased"]["ties"], judges["biased"]["position_bias"]) == ("6", "1.0")
    assert (judges["deaf"]["verdicts"], judges["deaf"]["agreement"]) == ("0", "")
    diagnostics = json.loads((paretoken.folder / "out" / "diagnostics.json").read_text())
    assert [row["judge"] for row in diagnostics["judges"]] == ["referee", "biased", "deaf"]
    # Calls of judges are nobody's.
    tokens = {row["strategy"]: row for row in table(paretoken.folder / "out" / "strategy_tokens.csv")}
    assert {row["ok_calls"] for row in tokens.values()} == {"6"}
    rows = [json.loads(line) for line in (paretoken.folder / "out" / "ledger.jsonl").read_text().splitlines()]
    assert len(rows) == 12 + 3 * 12
    assert {len(row["winner"]) for row in rows if row["kind"] == "generation"} == {2}

    seen = json.loads(paretoken.must("status", "test", "--json"))
    assert seen["judgings"] == {"biased": {"ok": 6}, "deaf": {"failed": 6}, "referee": {"ok": 6}}

    people = paretoken.folder / "people.csv"
    people.write_text("task_id,winner,loser,tie\nt00001,plain,cot,no\nt00002,cot,plain,yes\n")
    shown = paretoken.must(
        "report", "test", "--no-page", "--out", paretoken.folder / "p", "--comparisons", people
    )
    assert "Compared by people: people.csv." in shown
    assert len(table(paretoken.folder / "p" / "comparisons.csv")) == 2
    people.write_text("task_id,winner,loser\nt00001,plain,cot\nt00002,plane,cot\n")
    refused = paretoken(
        "report", "test", "--no-page", "--out", paretoken.folder / "p", "--comparisons", people
    )
    assert refused.returncode == 2
    assert "people.csv:3: unknown strategy 'plane' in winner; the run has plain, cot." in refused.stderr

    # What ranks may change afterwards; nothing is asked anew.
    text = path.read_text()
    path.write_text(text.replace("[[strategies]]", '[ranking]\nuse = "checks"\n[[strategies]]', 1))
    again = paretoken("run", path, "--no-page", "--out", paretoken.folder / "out", "--workers", "1")
    assert again.returncode == 0, again.stderr
    assert "Compared by the checks." in again.stdout
    ledger = (paretoken.folder / "out" / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in ledger] == rows
