"""Checks that run in the sandbox: right on honest answers, bounded on hostile ones."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from workers import sandbox
from workers.checks import CheckContext, Checked, check

CSV = b"species,mass,code\nAdelie,3700,007\nGentoo,5000.5,008\nGentoo,NA,009\n"
CONTEXT = CheckContext(files={"birds.csv": CSV})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs into the limit does so sooner."""
    monkeypatch.setattr(sandbox, "CPU_S", 1)


def regex(pattern: str, answer: str, **params: Any) -> Checked:
    return check({"kind": "regex", "pattern": pattern, **params}).run(answer, CheckContext())


def schema(document: dict[str, Any], answer: str) -> Checked:
    return check({"kind": "json_schema", "schema": document}).run(answer, CheckContext())


def sql(answer: str, rows: list[list[Any]], **params: Any) -> Checked:
    return check({"kind": "sql", "file": "birds.csv", "rows": rows, **params}).run(answer, CONTEXT)


@pytest.mark.parametrize(
    ("pattern", "answer", "params", "passes"),
    [
        (r"rows: \d+", "It has rows: 12", {}, True),
        (r"rows: \d+", "It has rows: 12", {"full": True}, False),
        (r"rows: \d+", " rows: 12\n", {"full": True}, True),
        (r"(?im)^ROWS: 12$", "a\nrows: 12\nb", {}, True),
        (r"\d", "none", {}, False),
        (r"^$", "\0", {}, False),
        (r"x*", "", {}, True),  # an empty match is a match: such a pattern asks for nothing
    ],
)
def test_regex(pattern: str, answer: str, params: dict[str, Any], passes: bool) -> None:
    assert regex(pattern, answer, **params).passed is passes


def test_catastrophic_backtracking_is_stopped_and_the_next_check_runs() -> None:
    checked = regex(r"^(a+)+$", "a" * 60 + "!")
    assert not checked.passed
    assert "stopped: it took more than 1 s of computing" in checked.message
    assert regex("b", "b").passed


def test_a_sandbox_that_was_killed_while_idle_is_replaced() -> None:
    assert regex("b", "b").passed
    process = sandbox._idle[-1]
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert regex("b", "b").passed


def test_the_sandbox_knows_no_variable_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOTOKEN_API_KEY", "secret")
    process = sandbox._start()
    try:
        environment = Path(f"/proc/{process.pid}/environ")
        if environment.exists():
            assert b"secret" not in environment.read_bytes()
        assert sandbox._exchange(process, _request("regex", pattern="a", text="a", full=True)) == {
            "result": "a"
        }
    finally:
        sandbox._idle.remove(process)
        sandbox._end(process)


def _request(action: str, **arguments: Any) -> str:
    return json.dumps({"action": action, "arguments": arguments, "cpu_s": 2}) + "\n"


@pytest.mark.parametrize(
    ("document", "answer", "message"),
    [
        ({"type": "object", "required": ["a"]}, '{"a": 1}', "the JSON keeps the schema"),
        ({"type": "object", "required": ["a"]}, "```json\n{}\n```", "$: 'a' is a required property"),
        ({"properties": {"a": {"type": "integer"}}}, '{"a": "x"}', "$.a: 'x' is not of type 'integer'"),
        ({"$defs": {"n": {"minimum": 3}}, "$ref": "#/$defs/n"}, "2", "$: 2 is less than the minimum of 3"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "2", "Unresolvable"),
        ({"$ref": "#"}, "2", "RecursionError"),
        ({"type": "object"}, "no JSON", "no JSON"),
        ({"pattern": "^(a+)+$"}, '"' + "a" * 60 + '!"', "stopped: it took more than"),
    ],
)
def test_json_schema(document: dict[str, Any], answer: str, message: str) -> None:
    checked = schema(document, answer)
    assert checked.passed is (message == "the JSON keeps the schema")
    assert message in checked.message


SPECIES = "SELECT species, COUNT(*) AS n FROM birds GROUP BY species"
COUNTS: list[list[Any]] = [["Gentoo", 2], ["Adelie", 1]]


@pytest.mark.parametrize(
    ("answer", "rows", "params"),
    [
        (SPECIES, COUNTS, {}),
        (f"First:\n```sql\n{SPECIES};\n```", COUNTS, {"columns": ["species", "n"]}),
        (f"{SPECIES} ORDER BY n DESC", COUNTS, {"ordered": True}),
        # types: whole numbers and numbers where all fields are, text where leading zeros count; NA is NULL
        ("SELECT mass, code FROM birds", [[3700, "007"], [5000.5, "008"], [None, "009"]], {}),
        ("SELECT DISTINCT typeof(mass) FROM birds", [["real"], ["null"]], {}),
        # the last result, the first, and a query of the task's own on what the SQL has left behind
        ("SELECT 1; SELECT 2; -- done", [[2]], {}),
        ("SELECT 1; SELECT 2;", [[1]], {"result": 1}),
        ("CREATE TABLE t AS SELECT * FROM birds WHERE mass > 4000;", [[1]], {"query": "SELECT COUNT(*) FROM t"}),
        ("```sql\nCREATE VIEW v AS SELECT 1 AS a;\n```\nand\n```sql\nSELECT a FROM v\n```", [[1]], {}),
        ("SELECT 'a;b' -- ;\n;", [["a;b"]], {}),
        ("WITH RECURSIVE c(n) AS (SELECT 1 UNION SELECT n + 1 FROM c WHERE n < 2) SELECT n FROM c", [[1], [2]], {}),
        ("SELECT AVG(mass) FROM birds", [[4350.25]], {}),  # (3700 + 5000.5) / 2
        ("SELECT 0.333", [[1 / 3]], {"abs_tolerance": 0.001}),
        ("SELECT * FROM penguins WHERE mass < 0", [], {"table": "penguins"}),
    ],
)  # fmt: skip
def test_sql_gives_the_expected_rows(answer: str, rows: list[list[Any]], params: dict[str, Any]) -> None:
    checked = sql(answer, rows, **params)
    assert checked.passed, checked.message


@pytest.mark.parametrize(
    ("answer", "params", "message"),
    [
        ("", {}, "no SQL"),
        ("I cannot do that.", {}, "statement 1 failed: near"),
        ("CREATE TABLE t (a)", {}, "no statement that gives rows"),
        ("SELECT 1", {}, "expected 2 rows, seen 1"),
        ("SELECT 'Gentoo', 2 UNION SELECT 'Adelie', 2", {}, "the row ['Adelie', 1] is missing"),
        (
            "SELECT 'Adelie', 1 UNION ALL SELECT 'Gentoo', 2",
            {"ordered": True},
            "in its place is ['Adelie', 1]",
        ),
        (SPECIES, {"columns": ["species", "count"]}, "expected the columns ['species', 'count']"),
        (SPECIES, {"result": 2}, "result 2 is asked for, the SQL gives 1"),
        (SPECIES, {"file": "other.csv"}, "the task has no file 'other.csv'"),
        ("SELECT wings FROM birds", {}, "no such column"),
    ],
)
def test_sql_that_is_wrong_says_why(answer: str, params: dict[str, Any], message: str) -> None:
    checked = sql(answer, COUNTS, **params)
    assert not checked.passed
    assert message in checked.message


ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("ATTACH '{folder}/a.db' AS a", "ATTACH or VACUUM is not allowed"),
        ("VACUUM INTO '{folder}/a.db'", "ATTACH or VACUUM is not allowed"),
        ("PRAGMA writable_schema = 1", "PRAGMA is not allowed"),
        ("SELECT * FROM pragma_database_list", "PRAGMA is not allowed"),
        ("SELECT load_extension('{folder}/a.so')", "not allowed"),
        ("SELECT writefile('{folder}/a', 'x')", "no such function"),
        ("CREATE VIRTUAL TABLE f USING fts5(a)", "CREATE VIRTUAL TABLE is not allowed"),
        ("CREATE TRIGGER t AFTER INSERT ON birds BEGIN SELECT 1; END", "CREATE TRIGGER is not allowed"),
        ("INSERT INTO sqlite_master VALUES (1, 1, 1, 1, 1)", "may not be modified"),
        (".shell touch {folder}/a", "near"),
        ("SELECT hex(zeroblob(1000000000))", "too big"),
        (f"{ENDLESS} COUNT(*) FROM c", "stopped: it took more than"),
        (f"{ENDLESS} n FROM c", "more than 1000 rows"),
        (f"{ENDLESS} hex(zeroblob(400000)) FROM c LIMIT 1000", "more than 1000 rows or 1000000 bytes"),
        (f"CREATE TABLE big AS {ENDLESS} hex(randomblob(400000)) FROM c", "memory"),
        ("SELECT 1;" * 200, "more than 100 results"),
        ("SELECT '\ud800'", "surrogates"),
        ("SELECT 1\0", "NUL"),
    ],
)
def test_hostile_sql_is_refused_and_writes_nothing(answer: str, message: str, tmp_path: Path) -> None:
    checked = sql(answer.replace("{folder}", str(tmp_path)), COUNTS)
    assert not checked.passed
    assert message in checked.message
    assert list(tmp_path.iterdir()) == []


def test_a_csv_with_uneven_rows_is_named() -> None:
    uneven = CheckContext(files={"birds.csv": b"a,b\n1,2\n3\n"})
    checked = check({"kind": "sql", "file": "birds.csv", "rows": []}).run("SELECT 1", uneven)
    assert "row 2 of the CSV" in checked.message
