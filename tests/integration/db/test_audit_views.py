"""The audit views add up to the calls, whatever is in them; the documented questions have the documented answers."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analysis.tokens import strategy_tokens, success_rates, trial_usage
from db.audit import audit_run
from db.connection import Connection, connect
from db.frames import read_frames
from db.ledger_files import ledger_file
from db.ledger_import import import_ledger
from db.runs import find_run
from paretoken.servers import Servers
from tests.conftest import named
from tests.ledgers import row, unanswered, write_lines

PAGE = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()
GROUPED = ("rounds", "models", "errors", "retries", "status", "daily", "workers")
OF_TRIALS = ("trials", "task_strategy", "strategy")
SUMS = {
    "input_tokens": "sum_input_tokens",
    "output_tokens": "sum_output_tokens",
    "total_tokens": "sum_total_tokens",
    "cost_usd": "sum_cost_usd",
}
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def shared(embedded: Servers, template: str) -> Iterator[Connection]:
    """One database for all tests here: each imports runs of its own."""
    name = "test_audit_views"
    with psycopg.connect(embedded.database_url, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name}")
        server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        with connect(named(embedded.database_url, name)) as opened:
            yield opened
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


Load = Callable[[Rows], str]


@pytest.fixture(scope="module")
def load(shared: Connection, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Import rows as a new run; give its name."""
    folder = tmp_path_factory.mktemp("ledgers")
    made = 0

    def load(rows: Rows) -> str:
        nonlocal made
        made += 1
        file = ledger_file(write_lines(folder / f"{made}.jsonl", rows))
        return import_ledger(shared, file, run_id=f"run-{made}").run_id

    return load


tokens = st.none() | st.integers(0, 10_000)


@st.composite
def outcomes(draw: st.DrawFn) -> dict[str, Any]:
    """How an attempt ended and what it said: any of it may be missing."""
    status = draw(st.sampled_from(["ok", "error", "unknown"]))
    said, told = draw(tokens), draw(tokens)
    total = None if said is None or told is None else said + told
    return {
        "status": status,
        "error": None if status == "ok" else draw(st.sampled_from(["server_error", "timeout"])),
        "http_status": draw(st.sampled_from([200, 500, None])),
        "input_tokens": said,
        "output_tokens": told,
        "total_tokens": total,
        "cost_usd": None if total is None else draw(st.none() | st.just(total * 1e-6)),
        "model": draw(st.sampled_from(["m1", "m2"])),
        "worker": draw(st.sampled_from(["w1", "w2"])),
        "started_at": draw(st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-03T00:00:00+05:00"])),
    }


@st.composite
def ledgers(draw: st.DrawFn) -> Rows:
    """A few jobs of trials and judges with one to three attempts each; an answer may be used."""
    place = st.tuples(
        st.sampled_from(["t1", "t2"]),
        st.sampled_from(["a", "b", None]),
        st.integers(1, 2),
        st.integers(1, 2),
        st.integers(1, 2),
        st.integers(1, 2),
    )
    rows = []
    for task, strategy, repeat, try_, round_, sample in draw(st.sets(place, min_size=1, max_size=8)):
        ends = draw(st.lists(outcomes(), min_size=1, max_size=3))
        answered = [number for number, end in enumerate(ends, 1) if end["status"] == "ok"]
        used = draw(st.sampled_from([*answered, None]))
        rows += [
            row(task_id=task, strategy=strategy, repeat=repeat, round=round_, sample=sample, attempt=number,
                kind="generation" if strategy else "judge", used=number == used,
                purpose="retry" if number > 1 else "rerun" if try_ > 1 else "first",
                **{"try": try_ if strategy else 1}, **end)
            for number, end in enumerate(ends, 1)
        ]  # fmt: skip
        if draw(st.booleans()):
            # An external agent's second turn: a row of the same attempt.
            rows.append(rows[-1] | {"turn": 2})
    # Tries of a judge do not exist: what differs in them alone is the same row.
    return list({tuple(r[k] for k in KEY): r for r in rows}.values())


KEY = ("task_id", "strategy", "repeat", "try", "round", "sample", "attempt", "turn")


def usable(rows: Rows) -> Rows:
    """At most one attempt of a job is used, with all its turns."""
    answers: dict[tuple[Any, ...], int] = {}
    for line in rows:
        if line["used"]:
            answer = answers.setdefault(tuple(line[name] for name in KEY[:-2]), line["attempt"])
            line["used"] = answer == line["attempt"]
    return rows


def direct(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The sums as anybody would do them."""
    lines = list(rows)
    sums: dict[str, Any] = {"calls": len(lines)}
    for name, column in SUMS.items():
        sums[column] = sum(line[name] or 0 for line in lines)
    sums["unknown_usage_calls"] = sum(line["total_tokens"] is None and billed(line) for line in lines)
    sums["unknown_cost_calls"] = sum(
        line["cost_usd"] is None and (line["total_tokens"] is not None or billed(line)) for line in lines
    )
    return sums


def billed(line: dict[str, Any]) -> bool:
    """Whether a call may have been billed although it does not say its tokens."""
    return line["status"] in ("ok", "unknown") or line["http_status"] == 200


def summed(shared: Connection, view: str, run_id: str) -> dict[str, Any]:
    columns = ("calls", *SUMS.values(), "unknown_usage_calls", "unknown_cost_calls")
    query = ", ".join(f"coalesce(sum({name}), 0)::float8 AS {name}" for name in columns)
    found = shared.execute(f"SELECT {query} FROM audit_{view} WHERE run_id = %s", [run_id]).fetchone()
    assert found is not None
    return found


@given(rows=ledgers())
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    # An example is a run of its own; making it smaller would take minutes.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_view_adds_up_to_the_calls(shared: Connection, load: Load, rows: Rows) -> None:
    run_id = load(usable(rows))
    own = [line for line in rows if line["strategy"]]
    wanted = {
        **dict.fromkeys(GROUPED, direct(rows)),
        **dict.fromkeys(OF_TRIALS, direct(own)),
        "errors": direct(line for line in rows if line["status"] != "ok"),
        "retries": direct(line for line in rows if line["purpose"] != "first"),
    }
    for view, sums in wanted.items():
        assert summed(shared, view, run_id) == pytest.approx(sums), view
    calls = shared.execute("SELECT * FROM audit_calls WHERE run_id = %s", [run_id]).fetchall()
    assert sorted(map(told, calls)) == sorted(map(told, rows))
    checks = {check.name: check for check in audit_run(shared, run_id).checks}
    for name in ("one used call", "the tally equals the calls", "the views equal the calls"):
        assert checks[name].passed, checks[name].says
    same_as_the_analysis(shared, run_id)


def told(line: dict[str, Any]) -> str:
    return repr([line[name] for name in (*KEY, "status", "used", "total_tokens", "cost_usd", "worker")])


def same_as_the_analysis(shared: Connection, run_id: str) -> None:
    """`audit_strategy` says what `strategy_tokens.csv` says."""
    frames = read_frames(shared, run=find_run(shared, run_id)["id"])
    trials = trial_usage(frames.outcomes, frames.calls)
    names = frames.strategies["strategy"].to_list()
    found = shared.execute(
        "SELECT * FROM audit_strategy WHERE run_id = %s ORDER BY position", [run_id]
    ).fetchall()
    for wanted, line in zip(strategy_tokens(trials, names).to_dicts(), found, strict=True):
        wanted["unknown_usage_trials"] = wanted.pop("unknown_usage")
        del wanted["median_total_tokens"]
        assert {name: line[name] for name in wanted} == pytest.approx(wanted, nan_ok=True)
    rates = success_rates(trials, names)["success_rate"].to_list()
    assert [line["success_rate"] for line in found] == rates


@pytest.mark.parametrize("view", ["calls", *GROUPED, *OF_TRIALS])
@pytest.mark.parametrize("by", ["run = 1", "run_id = 'run-1'"])
def test_a_view_of_one_run_reads_no_other(shared: Connection, view: str, by: str) -> None:
    with shared.transaction():
        # Of tables this small the planner would rather read everything.
        for way in ("seqscan", "hashjoin", "mergejoin", "material", "memoize"):
            shared.execute(f"SET LOCAL enable_{way} = off")
        plan = shared.execute(f"EXPLAIN (FORMAT JSON) SELECT * FROM audit_{view} WHERE {by}").fetchone()
    assert plan is not None
    scans = [node for node in nodes(plan["QUERY PLAN"][0]["Plan"]) if "Relation Name" in node]
    assert "call" in {node["Relation Name"] for node in scans}
    for node in scans:
        if node["Relation Name"] in ("call", "job", "trial"):
            condition = node.get("Index Cond") or node.get("Recheck Cond")
            assert condition and re.search(r"\((run|job|id|trial)\b", condition), node


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def test_every_view_and_column_is_documented(shared: Connection) -> None:
    rows = shared.execute(
        "SELECT table_name AS view, column_name AS name FROM information_schema.columns "
        "WHERE table_name LIKE 'audit%' AND table_name <> 'audit_calls'"
    ).fetchall()
    patterns = [
        re.compile(re.escape(name).replace("…", r"\w+"))
        for cell in re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`([\w…]+)`", cell)
    ]
    keys = {"run", "run_id", "kind", "strategy", "position", "task_id", "category", "task_weight", "repeat", "trial",
            "state", "confirmed_success", "model", "priced", "round", "status", "error", "http_status", "purpose",
            "retry_reason", "day", "key_fingerprint", "worker"}  # fmt: skip
    names = {row["name"] for row in rows} - keys
    assert [name for name in sorted(names) if not any(p.fullmatch(name) for p in patterns)] == []
    assert {f"audit_{view}" for view in ("calls", *GROUPED, *OF_TRIALS)} == {"audit_calls"} | {
        row["view"] for row in rows
    }
    said = shared.execute(
        "SELECT count(*) AS n FROM pg_class WHERE relname LIKE 'audit%' AND relkind = 'v' "
        "AND obj_description(oid) IS NOT NULL"
    ).fetchone()
    assert said == {"n": len(GROUPED) + len(OF_TRIALS) + 1}


# Two tasks. Strategy a asks once: t1 at the second attempt after a 500, t2 at once but without usage. Strategy b asks
# twice on t1; its second sample was lost, answered, and answered again. A judge was asked about t1. m2 has no price.
LEDGER = [
    unanswered(task_id="t1", strategy="a", attempt=1, http_status=500, worker="w1"),
    row(task_id="t1", strategy="a", attempt=2, purpose="retry", retry_reason="server_error", worker="w1",
        input_tokens=100, output_tokens=20, total_tokens=120, cost_usd=0.01, response_id="r1"),
    row(task_id="t2", strategy="a", worker="w1", input_tokens=None, output_tokens=None, total_tokens=None,
        cost_usd=None, response_id="r2", started_at="2026-01-03T00:00:00Z", finished_at="2026-01-03T00:00:01Z"),
    row(task_id="t1", strategy="b", sample=1, worker="w2", input_tokens=200, output_tokens=50, total_tokens=250,
        cost_usd=0.02, response_id="r3"),
    unanswered("unknown", "lost_worker", task_id="t1", strategy="b", sample=2, worker="w2"),
    row(task_id="t1", strategy="b", sample=2, attempt=2, purpose="retry", retry_reason="unknown_outcome", worker="w3",
        input_tokens=300, output_tokens=50, total_tokens=350, cost_usd=0.03, response_id="r4"),
    row(task_id="t1", strategy="b", sample=2, attempt=3, purpose="retry", retry_reason="unknown_outcome", worker="w3",
        input_tokens=300, output_tokens=50, total_tokens=350, cost_usd=0.03, response_id="r5", used=False),
    row(task_id="t1", strategy=None, kind="judge", model="m2", worker="w1", input_tokens=10, output_tokens=1,
        total_tokens=11, cost_usd=None, response_id="r6"),
]  # fmt: skip

NOON = "2026-01-02 03:04:05.000001+00:00"
NIGHT = "2026-01-03 00:00:00+00:00"
ANSWERS: list[list[tuple[Any, ...]]] = [
    # 8 calls; 120 + 250 + 350 + 350 + 11 tokens; 0.01 + 0.02 + 0.03 + 0.03; the lost one and t2; these and the judge's.
    [(8, 1081, 0.09, 2, 3)],
    # a: t1 120; t2 unknown. b: t1 250 + 350, and 350 were not used.
    [("a", 120, 120, 0, 0.01, 1), ("b", 600, 600, 350, 0.05, 0)],
    # t1: 120 + 250 + 350 + 350 tokens in 2 + 4 calls; t2: one call that said nothing.
    [("t1", 0.09, 1070, 6), ("t2", None, None, 1)],
    # m: 7 calls; first attempts that are ok and said their tokens: 250. m2: the judge.
    [("m", "generation", True, 7, 0.09, 2, 250), ("m2", "judge", False, 1, None, 1, 11)],
    # The second attempt of a, and the second and third of b's second sample.
    [("retry", "unknown_outcome", 2, 2, 700), ("retry", "server_error", 1, 1, 120)],
    [
        ("error", "server_error", 500, 1, None, NOON, NOON),
        ("unknown", "lost_worker", None, 1, None, NOON, NOON),
    ],
    # What an imported call may have used at most no ledger says.
    [("t1", "b", 1, 1, 2, 1, "unknown", None, 0, None), ("t1", "b", 1, 1, 2, 3, "ok", 350, None, "r5")],
    # (100 + 300 + 200)… of b: 250 + 350 used; per call: the first attempt of sample 1 alone, 200 input tokens.
    [("a", 1, 2, 120, None, None), ("b", 1, 2, 600, 350, 200)],
    [
        # 100 + 200 + 300 + 300 input and 20 + 50 + 50 + 50 output tokens
        ("2026-01-02", "m", "imported", 6, 900, 170, 0.09, 1),
        ("2026-01-02", "m2", "imported", 1, 10, 1, None, 0),
        ("2026-01-03", "m", "imported", 1, None, None, None, 1),
    ],
    [("w1", 4, 3, 1, 0, NOON, NIGHT), ("w2", 2, 1, 0, 1, NOON, NOON), ("w3", 2, 2, 0, 0, NOON, NOON)],
]
QUESTIONS = re.findall(r"^### (\d+)\. .+?```sql\n(.+?)```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def known(load: Load) -> str:
    return load([line | {"model": "m2" if line["kind"] == "judge" else "m"} for line in LEDGER])


def test_there_are_ten_questions() -> None:
    assert [int(number) for number, _ in QUESTIONS] == list(range(1, 11))


@pytest.mark.parametrize(("question", "answer"), list(zip(QUESTIONS, ANSWERS, strict=True)), ids=range(1, 11))
def test_a_documented_question(
    shared: Connection, known: str, question: tuple[str, str], answer: list[tuple[Any, ...]]
) -> None:
    with shared.transaction():
        shared.execute("SET LOCAL ROLE paretoken_auditor")
        shared.execute("SET LOCAL TIME ZONE 'UTC'")
        found = shared.execute(question[1].replace(":'run_id'", f"'{known}'")).fetchall()
    shown = [[str(v) if hasattr(v, "isoformat") else v for v in line.values()] for line in found]
    assert shown == [[pytest.approx(v) if isinstance(v, float) else v for v in line] for line in answer], (
        shown
    )
