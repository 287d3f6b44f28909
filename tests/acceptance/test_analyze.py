"""`paretoken analyze` on files as people have them: exit codes, tables and messages."""

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest

from paretoken import cli

DATA = Path(__file__).parents[2].parent / "shared" / "data"


class Analyzed:
    """What a call of the command left behind."""

    def __init__(self, code: int, stdout: str, stderr: str, out: Path) -> None:
        self.code, self.stdout, self.stderr, self.out = code, stdout, stderr, out

    def table(self, name: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO((self.out / f"{name}.csv").read_text(encoding="utf-8"))))


@pytest.fixture
def analyze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs `paretoken analyze ARGS --out tmp/out` in this process, through the front door."""
    commands = {**cli.COMMANDS, "analyze": ("paretoken.analyze", "analyze", "Rank strategies on file.")}
    monkeypatch.setattr(cli, "COMMANDS", commands)

    def run(*arguments: object) -> Analyzed:
        words = ["paretoken", "analyze", *map(str, arguments), "--no-page", "--out", str(tmp_path / "out")]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return Analyzed(int(end.value.code or 0), captured.out, captured.err, tmp_path / "out")

    return run


HUMANEVAL = [
    "--outcomes",
    DATA / "humaneval_outcomes.csv.gz",
    "--calls",
    DATA / "humaneval_calls.csv.gz",
    "--prices",
    DATA / "humaneval_prices.csv",
    "--columns",
    "strategy=strategy+config,repeat=run,success=is_solved,input_tokens=prompt_tokens,output_tokens=completion_tokens",
    "--allow-mixed",
]
FIVE = {
    "simple | gpt-3.5-turbo-0125": (955.001, 8.560, 349.626),
    "simple | gpt-4-turbo-2024-04-09": (1010.176, 3.995, 518.941),
    "simple_incr_temp | gpt-4-turbo-0409-5step": (1022.551, 3.657, 655.207),
    "simple_repeat | gpt-4-turbo-0409-5repeats-no-temp-incr": (1018.279, 3.477, 671.471),
    "simple_boosting | l3_8b-gpt35-l3_70b-gpt4-0409": (993.994, 5.914, 844.396),
}


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not there")
def test_humaneval(analyze) -> None:
    chosen = [part for name in FIVE for part in ("--only", name)]
    found = analyze(*HUMANEVAL, *chosen)
    assert found.code == 0, found.stderr
    elo = {row["strategy"]: row for row in found.table("elo_table")}
    tokens = {row["strategy"]: row for row in found.table("strategy_tokens")}
    for name, (rating, error, average) in FIVE.items():
        assert round(float(elo[name]["elo"]), 3) == rating
        assert round(float(elo[name]["elo_se"]), 3) == error
        assert round(float(tokens[name]["avg_total_tokens"]), 3) == average
    frontier = {row["strategy"] for row in found.table("pareto") if row["on_frontier"] == "true"}
    assert frontier == set(FIVE) - {"simple_repeat | gpt-4-turbo-0409-5repeats-no-temp-incr"}
    published = pl.read_csv(DATA / "humaneval_published_0409.csv")
    for row in found.table("pareto"):
        strategy, model = row["strategy"].split(" | ")
        mean = published.filter(pl.col("strategy") == strategy, pl.col("model") == model)["total_cost"].mean()
        assert float(row["cost_usd"]) * 164 == pytest.approx(mean, abs=1e-9)
    assert "worth it, recommended" in found.stdout
    assert "Cost is unknown" not in found.stdout


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not there")
def test_mixed_models_are_refused_unless_allowed(analyze) -> None:
    found = analyze(*HUMANEVAL[:-1])
    assert found.code == 2
    assert "mixes" in found.stderr
    assert "--allow-mixed" in found.stderr


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not there")
def test_llmfao_in_the_arenas_format(analyze) -> None:
    columns = "task_id=prompt,model_a=left,model_b=right"
    path = DATA / "llmfao.csv.gz"
    found = analyze("--comparisons", path, "--columns", columns, "--weight", "comparison", "--l2", 0)
    assert found.code == 0, found.stderr
    expected = pl.read_csv(DATA / "llmfao_expected.csv").filter(pl.col("algorithm") == "bradley_terry")
    best = expected.sort("score", descending=True)["item"][0]
    assert found.table("elo_table")[0]["strategy"] == best
    # 13 tasks do not allow simultaneous rank intervals of 59 models.
    assert found.table("elo_table")[0]["rank_low"] == ""


ROWS = "task_id,strategy,success\nt,a,1\nt,b,0\nu,a,0\nu,b,1\nv,a,1\nv,b,0\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_output_of_a_small_table(analyze, tmp_path: Path) -> None:
    found = analyze("--outcomes", written(tmp_path, "o.csv", ROWS), "--bootstrap", 50)
    assert found.code == 0, found.stderr
    assert {path.name for path in found.out.iterdir()} == {
        *(f"{name}.csv" for name in ("comparisons", "elo_table", "strategy_tokens", "elo_per_token")),
        *(f"{name}.csv" for name in ("token_buckets", "cost_summary", "cost_split", "pareto", "pairs")),
        *(f"{name}.csv" for name in ("net_benefit", "estimators", "win_shares", "categories")),
        *(f"{name}.csv" for name in ("cost_distribution", "cost_tail", "dearest")),
        "diagnostics.json",
        "report_files.json",
        "arena_results.json",
        "scaling_table.md",
        "arena_table.md",
    }
    assert [row["strategy"] for row in found.table("elo_table")] == ["a", "b"]
    again = analyze("--comparisons", found.out / "comparisons.csv")
    assert [row["elo"] for row in again.table("elo_table")] == [
        row["elo"] for row in found.table("elo_table")
    ]


def test_rankings(analyze, tmp_path: Path) -> None:
    rows = [f"t{t},{s},{r}" for t in range(25) for r, s in enumerate("abc" if t % 3 else "bca", start=1)]
    path = written(tmp_path, "r.csv", "\n".join(["task_id,strategy,rank", *rows]))
    found = analyze("--rankings", path, "--weight", "ranking", "--ties", "davidson", "--hierarchical")
    assert found.code == 0, found.stderr
    assert {row["strategy"] for row in found.table("elo_table")} == set("abc")
    assert "with one ranking per unit and strategy, effects look just like chance" in found.stdout
    assert not (found.out / "hierarchical.csv").exists()


def test_hierarchical(analyze, tmp_path: Path) -> None:
    rows = [
        f"t{t},{s},{r},{int((t * 7 + r * 3 + 5 * n) % 10 < 4 + 3 * n)}"
        for t in range(30)
        for n, s in enumerate("ab")
        for r in range(4)
    ]
    path = written(tmp_path, "o.csv", "\n".join(["task_id,strategy,repeat,success", *rows]))
    found = analyze("--outcomes", path, "--hierarchical")
    assert found.code == 0, found.stderr
    assert [row["strategy"] for row in found.table("hierarchical")][:2] == ["a", "b"]


def test_a_ledger_alone_is_no_mistake(analyze, tmp_path: Path) -> None:
    lines = [
        {"task_id": "t", "strategy": s, "total_tokens": n, "usage": {"x": 1}}
        for s, n in (("a", 10), ("b", 20))
    ]
    path = written(tmp_path, "c.jsonl", "\n".join(map(json.dumps, lines)))
    found = analyze("--calls", path)
    assert found.code == 0, found.stderr
    assert [row["avg_total_tokens"] for row in found.table("strategy_tokens")] == ["10.0", "20.0"]
    assert found.table("elo_table")[0]["elo"] == ""


ISLANDS = "task_id,winner,loser\nt,a,b\nu,b,a\nt,c,d\nu,d,c\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--outcomes", "absent.csv"], "absent.csv: there is no such file"),
        ([], "Nothing to analyse"),
        (["--outcomes", ROWS, "--columns", "x"], "columns: 'x' is not of the form"),
        (["--outcomes", ROWS, "--columns", "x=absent"], "no file has absent"),
        (["--outcomes", ROWS, "--buckets", "a"], "--buckets is 'a'"),
        (["--outcomes", ROWS, "--anchor", "z"], "anchor 'z' has no comparisons; known are a, b"),
        (["--outcomes", ROWS, "--baseline", "z"], "baseline 'z'"),
        (["--outcomes", ROWS, "--clip", "3"], "clip has nothing to do"),
        (["--outcomes", ROWS, "--weight", "x"], "'x' is not one of"),
        (["--outcomes", ROWS + "t,a,1\n"], "2 rows share a key"),
        (["--comparisons", ISLANDS], "[a, b]; [c, d]"),
        (["--comparisons", "task_id,winner,loser\nt,a,a\n"], "'a' is compared with itself on task 't'"),
        (["--outcomes", "task_id,strategy,success\nt,a,1\n"], "only 1 strategy has results"),
    ],
)
def test_mistakes_end_in_one_line_and_exit_code_2(
    analyze, tmp_path: Path, arguments: list[str], message: str
) -> None:
    words = [written(tmp_path, "in.csv", word) if "\n" in word else word for word in arguments]
    found = analyze(*words)
    assert found.code == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr
