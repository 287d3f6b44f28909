"""Checks on what was written and on what an answer names."""

from typing import Any

import pytest

from workers.checks import CheckContext, Checked, check

CONTEXT = CheckContext(
    files={"birds.csv": b"a\n1\n", "data/more.csv": b"b\n"},
    written={"out.json": b'{"rows": 336, "share": 0.25}', "blank.txt": b" \n", "broken.json": b'{"rows": '},
)


def run(kind: str, answer: str = "", context: CheckContext = CONTEXT, **params: Any) -> Checked:
    return check({"kind": kind, **params}).run(answer, context)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("Use sqlite3 birds.db and COPY it.", None),
        ("postgres is a database; mysql too", None),
        ("See https://example.org/postgres", None),
        ("The host has a password. The server = fast", None),
        ("psql postgresql://admin:hunter2@db.example.org/prod", "postgresql://"),
        ("engine = create_engine('mysql+pymysql://root@10.0.0.5/prod')", "mysql+pymysql://"),
        ("MONGODB://h/x", "MONGODB://"),
        ("jdbc:oracle:thin:@//h:1521/x", "jdbc:oracle:"),
        ("redis://:secret@h:6379/0", "redis://"),
        ("psycopg.connect(\"host=db.example.org dbname=prod user=admin\")", "host=…"),
        ("Server=tcp:db,1433;Initial Catalog=prod;Password=x;", "Server=…"),
    ],
)  # fmt: skip
def test_no_connection_string(answer: str, found: str | None) -> None:
    checked = run("no_connection_string", answer)
    assert checked.passed == (found is None)
    assert found is None or f"({found}) is in the answer" in checked.message
    # A secret is not copied into the finding.
    assert "hunter2" not in f"{checked}"


def test_a_connection_string_in_a_written_file_is_found() -> None:
    context = CheckContext(written={"load.py": b"URL = 'postgres://u@h/d'"})
    checked = run("no_connection_string", "done", context)
    assert (checked.passed, checked.seen) == (False, "load.py")


@pytest.mark.parametrize(
    ("answer", "params", "unknown"),
    [
        ("Load birds.csv, then ./birds.csv and data/more.csv or more.csv.", {}, []),
        ("out.json was written", {}, []),
        ("About 3.5 g and 1/2 of them, he/she, and/or, km/h, v1.2, e.g. this", {}, []),
        ("See https://example.org/a/b.csv for more.", {}, []),
        ("<b>bold</b> and 12/11/2009", {}, []),
        ("Load penguins.csv first.", {}, ["penguins.csv"]),
        ("Load `/data/birds.csv` and ../birds.csv", {}, ["/data/birds.csv", "../birds.csv"]),
        ("C:\\temp\\x and ~/notes", {}, ["C:\\temp\\x", "~/notes"]),
        ("cat /etc/passwd", {}, ["/etc/passwd"]),
        ("src/load.py reads other/birds.csv", {}, ["src/load.py", "other/birds.csv"]),
        ("I would write report.md", {"allow": ["report.md"]}, []),
    ],
)
def test_paths_exist(answer: str, params: dict[str, Any], unknown: list[str]) -> None:
    checked = run("paths_exist", answer, **params)
    assert (checked.passed, checked.seen if unknown else []) == (not unknown, unknown)


def test_a_hostile_answer_is_searched_in_linear_time() -> None:
    assert not run("paths_exist", "a/" * 200_000 + "b.csv").passed
    assert run("no_connection_string", "host=" * 100_000).passed


@pytest.mark.parametrize(
    ("params", "passes", "message"),
    [
        ({"file": "out.json"}, True, "out.json has 28 bytes"),
        ({"file": "blank.txt"}, False, "blank.txt is empty"),
        ({"file": "blank.txt", "empty": True}, True, "blank.txt has 2 bytes"),
        ({"file": "none.txt"}, False, "none.txt was not written; files that were: out.json, blank.txt"),
        # a file of the task was not written by the trial
        ({"file": "birds.csv"}, False, "birds.csv was not written"),
    ],
)
def test_file_exists(params: dict[str, Any], passes: bool, message: str) -> None:
    checked = run("file_exists", **params)
    assert checked.passed is passes
    assert message in checked.message


@pytest.mark.parametrize(
    ("params", "passes", "message"),
    [
        ({"file": "out.json"}, True, "out.json: valid JSON"),
        ({"file": "out.json", "fields": {"rows": 336}}, True, "out.json: all 1 fields are as expected"),
        ({"file": "out.json", "fields": {"rows": 335}}, False, "rows: expected 335, seen 336"),
        ({"file": "out.json", "fields": {"share": 0.3}, "abs_tolerance": 0.1}, True, "as expected"),
        ({"file": "out.json", "schema": {"required": ["rows"]}}, True, "keeps the schema"),
        ({"file": "out.json", "schema": {"required": ["cols"]}}, False, "'cols' is a required property"),
        ({"file": "broken.json"}, False, "broken.json: no JSON"),
        ({"file": "none.json"}, False, "none.json was not written"),
    ],
)
def test_file_json(params: dict[str, Any], passes: bool, message: str) -> None:
    checked = run("file_json", **params)
    assert checked.passed is passes
    assert message in checked.message
