"""Real Claude Code and real Codex as strategies of one run, on a gateway that nobody here wrote.

PARETOKEN_CLIENTS=1 pytest tests/acceptance/test_commands.py          # installs both by npm, which takes a while
PARETOKEN_CLIENTS=FOLDER pytest tests/acceptance/test_commands.py     # or uses FOLDER/node_modules
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import CommandLine
from tests.counting import counting_proxy
from tests.third_party import ask, llmock

VARIABLE = "PARETOKEN_CLIENTS"
KEY = "sk-marked-key-7f3a9c"
CLAUDE, CODEX, OTHER = "claude-sonnet-4-6", "gpt-4o-mini", "gpt-4o"

EXPERIMENT = """
tasks = "tasks.jsonl"
allow_commands = true

[gateway]
base_url = "{address}/v1"
api_key_env = "TAOTOKEN_API_KEY"

[model]
name = "{codex}"

[limits]
concurrency = 2

[prices."{claude}"]
input_usd_per_1m = 3.0
output_usd_per_1m = 15.0

[prices."{codex}"]
input_usd_per_1m = 0.15
output_usd_per_1m = 0.6

[[strategies]]
name = "claude"                     # with the files of `paretoken clients write`
kind = "command"
client = "claude-code"
command = ["{bin}/claude"]
model = "{claude}"
home = "claude"
arguments = ["--permission-mode", "acceptEdits"]
max_total_tokens = 200_000

[[strategies]]
name = "codex"                      # with the files of `paretoken clients write`
kind = "command"
client = "codex"
command = ["{bin}/codex"]
home = "codex"
max_total_tokens = 200_000

[[strategies]]
name = "codex_4o"                   # without any file
kind = "command"
client = "codex"
command = ["{bin}/codex"]
model = "{other}"
max_total_tokens = 200_000
"""
TASK = {
    "id": "birds",
    "goal": "How many birds are there?",
    "files": ["birds.csv"],
    "checks": [{"kind": "non_empty"}],
}
# A sub-agent asks for itself; what it takes is no part of Claude Code's own `usage`.
SUB_AGENT = {"description": "count", "prompt": "Count.", "subagent_type": "general-purpose"}
ONLY_CLAUDE = {"stream": True, "model": CLAUDE}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the installed programs."""
    asked = os.environ.get(VARIABLE)
    if not asked:
        pytest.skip(f"{VARIABLE} is not set: installing both clients takes a minute and 700 MB")
    if asked != "1":
        yield Path(asked) / "node_modules" / ".bin"
        return
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("clients")
    packages = ("@anthropic-ai/claude-code@2", "@openai/codex")
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"npm cannot install the clients here: {done.stderr.strip()[-300:]}")
    # npm may leave the install script of Claude Code out.
    script = folder / "node_modules" / "@anthropic-ai" / "claude-code" / "install.cjs"
    subprocess.run(["node", str(script)], cwd=script.parent, check=True, capture_output=True)
    yield folder / "node_modules" / ".bin"
    shutil.rmtree(folder)  # 700 MB


def test_the_ledger_has_what_the_gateway_served(
    paretoken: CommandLine, clients: Path, tmp_path: Path
) -> None:
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK))
    (tmp_path / "birds.csv").write_text("species\nAdelie\nGentoo\n")
    with llmock(tmp_path / "llmock.log") as gateway, counting_proxy(gateway) as counting:
        ask(gateway, "scenario", {"behaviors": [
            {"type": "reply", "tool_calls": [{"name": "Agent", "arguments": SUB_AGENT}], "match": ONLY_CLAUDE},
            {"type": "reply", "text": "There are two.", "match": ONLY_CLAUDE},
            {"type": "reply", "text": "2", "match": ONLY_CLAUDE},
        ]})  # fmt: skip
        address = counting.address
        names = {"claude": CLAUDE, "codex": CODEX, "other": OTHER, "bin": str(clients), "address": address}
        (tmp_path / "experiment.toml").write_text(EXPERIMENT.format(**names))
        # llmock serves its interfaces below different paths.
        write = ("clients", "write", "--out")
        paretoken.must(*write, "claude", "--app", "claude-code", "--model", CLAUDE,
                       TAOTOKEN_BASE_URL=f"{address}/anthropic")  # fmt: skip
        paretoken.must(*write, "codex", "--app", "codex", "--model", CODEX, TAOTOKEN_BASE_URL=f"{address}/v1")
        done = paretoken("run", "experiment.toml", "--out", "out", TAOTOKEN_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "ledger.jsonl").read_text().splitlines()]
    assert [(row["strategy"], row["status"], row["used"], row["turn"]) for row in rows] == [
        (name, "ok", True, 1) for name in ("claude", "codex", "codex_4o")
    ]
    assert {row["strategy"]: (row["input_tokens"], row["output_tokens"]) for row in rows} == {
        "claude": counting.sums(CLAUDE),
        "codex": counting.sums(CODEX),
        "codex_4o": counting.sums(OTHER),
    }
    assert len(counting.tokens[CLAUDE]) == 3  # the sub-agent's too
    claude, codex, other = rows
    assert (claude["content"], claude["finish_reason"], codex["finish_reason"]) == ("2", "run", "turn")
    assert claude["usage"]["input_tokens"] < claude["input_tokens"]
    assert claude["usage"]["total_cost_usd"] > 0  # a note
    prices = {"claude": (3.0, 15.0), "codex": (0.15, 0.6)}
    for row in (claude, codex):
        input_usd, output_usd = prices[row["strategy"]]
        paid = (row["input_tokens"] * input_usd + row["output_tokens"] * output_usd) / 1e6
        assert row["cost_usd"] == pytest.approx(paid)
    assert other["cost_usd"] is None  # no price
    assert counting.keys == {KEY}
    held = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert held == []
    assert KEY not in done.stdout + done.stderr
