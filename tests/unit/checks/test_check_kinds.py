"""Every kind of check that needs no sandbox, on answers that keep it and that break it."""

from typing import Any

import pytest

from workers.checks import KINDS, CheckContext, CheckInvalid, check, run_checks

NOTHING = CheckContext()

TEXT = [
    # check, answer, passes
    ({"kind": "non_empty"}, "x", True),
    ({"kind": "non_empty"}, " \n\t", False),
    ({"kind": "contains", "text": "Gentoo"}, "The Gentoo one", True),
    ({"kind": "contains", "text": "gentoo"}, "The Gentoo one", False),
    ({"kind": "contains", "text": "gentoo", "ignore_case": True}, "The GENTOO one", True),
    ({"kind": "not_contains", "text": "Adelie"}, "Gentoo", True),
    ({"kind": "not_contains", "text": "Adelie"}, "Gentoo and Adelie", False),
    ({"kind": "not_contains", "text": "Adelie"}, "", False),
    ({"kind": "exact", "text": "a,b\n1,2"}, "\n a,b  \r\n1,2\n", True),
    ({"kind": "exact", "text": "a,b\n1,2"}, "a,b\n1,3", False),
    ({"kind": "exact", "text": "a,b\n1,2"}, "a,b", False),
    ({"kind": "exact", "text": "Gentoo"}, "gentoo", False),
    ({"kind": "exact", "text": "Gentoo", "ignore_case": True}, "GENTOO", True),
]

NUMBER = [
    ({"value": 1024}, "It is 1,024.", True),
    ({"value": 1024}, "1,024 rows, or rather 1,025", False),
    ({"value": 1024, "which": "first"}, "1,024 rows, or rather 1,025", True),
    ({"value": -5}, "minus five: \u22125", True),
    ({"value": 15}, "On 2009-11-15", True),  # a dash between digits is no sign
    ({"value": 4201.5, "abs_tolerance": 0.5}, "4202.0 g", True),  # off by 0.5
    ({"value": 4201.5, "abs_tolerance": 0.5}, "4202.1 g", False),  # off by 0.6
    ({"value": 200, "rel_tolerance": 0.01}, "202", True),  # 1 % of 200 is 2
    ({"value": 200, "rel_tolerance": 0.01}, "203", False),
    ({"value": 0.1}, "0.30000000000000004 - 0.2 = .1", True),
    ({"value": 1200}, "1.2e3", True),
    ({"value": 12.5}, "$12.50", True),
    ({"value": 12.5}, "12.5%", True),
    ({"value": 3}, "a3 v1.2.3", False),  # digits inside words and versions are no numbers
    ({"value": 3, "label": "missing"}, "rows: 120\nMissing: 3 of 120", False),  # the last number is 120
    ({"value": 3, "label": "missing", "which": "first"}, "rows: 120\nMissing: 3 of 120", True),
    ({"value": 2, "label": "mean:"}, "mean: 1\nno, mean: 2\nmean: unknown", True),
    ({"value": 3, "label": "missing"}, "rows: 3", False),
    ({"value": 7}, "", False),
    ({"value": 7}, "9" * 400, False),  # more than a float holds
    ({"value": 7}, "9" * 100_000 + " 7", True),
]

PROFILE = '{"rows": 120, "columns": [{"name": "sex", "missing": 3}], "ok": true, "mean": 43.25, "note": null}'
JSON = [
    ({"kind": "json"}, PROFILE, True),
    ({"kind": "json"}, f"Here it is:\n```json\n{PROFILE}\n```\nDone.", True),
    ({"kind": "json", "strict": True}, f"```json\n{PROFILE}\n```", False),
    ({"kind": "json"}, "{'rows': 120}", False),
    ({"kind": "json"}, '{"a": NaN}', False),
    ({"kind": "json"}, "", False),
    ({"kind": "json"}, "[" * 100_000, False),
    ({"kind": "json"}, "9" * 5000, False),
    ({"kind": "json", "root": "object"}, "[1]", False),
    ({"kind": "json", "root": "array"}, "[1]", True),
    ({"kind": "json_fields", "fields": {"rows": 120}}, PROFILE, True),
    ({"kind": "json_fields", "fields": {"rows": 121}}, PROFILE, False),
    ({"kind": "json_fields", "fields": {"rows": "120"}}, PROFILE, False),
    ({"kind": "json_fields", "fields": {"ok": 1}}, PROFILE, False),  # true is no 1
    ({"kind": "json_fields", "fields": {"note": None, "ok": True}}, PROFILE, True),
    ({"kind": "json_fields", "fields": {"gone": None}}, PROFILE, False),  # missing is not null
    ({"kind": "json_fields", "fields": {"columns.0.missing": 3}}, PROFILE, True),
    ({"kind": "json_fields", "fields": {"columns.1.missing": 3}}, PROFILE, False),
    ({"kind": "json_fields", "fields": {"columns": [{"name": "sex", "missing": 3.0}]}}, PROFILE, True),
    ({"kind": "json_fields", "fields": {"columns": []}}, PROFILE, False),
    ({"kind": "json_fields", "fields": {"mean": 43.2}, "abs_tolerance": 0.05}, PROFILE, True),
    ({"kind": "json_fields", "fields": {"mean": 43.2}, "abs_tolerance": 0.04}, PROFILE, False),
    ({"kind": "json_fields", "fields": {"rows": 1}}, '{"rows": ' + "9" * 4000 + "}", False),
    ({"kind": "json_fields", "fields": {"rows": 1}}, "no JSON", False),
]


@pytest.mark.parametrize(
    ("spec", "answer", "passes"), [*TEXT, *[({"kind": "number"} | s, a, p) for s, a, p in NUMBER], *JSON]
)
def test_check(spec: dict[str, Any], answer: str, passes: bool) -> None:
    checked = check(spec).run(answer, NOTHING)
    assert checked.passed is passes
    assert checked.message


def test_what_differs_is_said() -> None:
    fields = check({"kind": "json_fields", "fields": {"rows": 121, "gone": 1}}).run(PROFILE, NOTHING)
    assert fields.message == "rows: expected 121, seen 120; gone is missing"
    assert fields.seen == {"rows": 120}
    exact = check({"kind": "exact", "text": "a\nb"}).run("a\nc", NOTHING)
    assert exact.message == "line 2: expected 'b', seen 'c'"


def test_no_checks_is_not_a_success() -> None:
    assert run_checks([], "x", NOTHING) == (None, [])


def test_all_checks_have_to_pass_and_each_is_reported() -> None:
    checks = [check({"kind": "non_empty"}), check({"kind": "number", "value": 8})]
    success, results = run_checks(checks, "7", NOTHING)
    assert success is False
    assert results == [
        {"kind": "non_empty", "passed": True, "message": "the answer holds text", "seen": None},
        {"kind": "number", "passed": False, "message": "expected 8, seen 7 as the last number", "seen": 7.0},
    ]
    assert run_checks(checks, "8", NOTHING)[0] is True


def test_results_can_be_stored_whatever_the_answer_holds() -> None:
    answer = "\0\ud800" + "x" * 10_000
    checks = [check({"kind": "exact", "text": "y"}), check({"kind": "number", "value": 1})]
    _, (exact, _) = run_checks(checks, answer, NOTHING)
    assert exact["seen"].startswith("\ufffd?x")
    assert exact["seen"].endswith("… (10,002 characters)")
    _, (_, number) = run_checks(checks, "9" * 400, NOTHING)
    assert number["seen"] == "inf"


def test_an_enormous_answer_is_refused_with_its_size() -> None:
    success, (result,) = run_checks([check({"kind": "contains", "text": "x"})], "x" * 1_000_001, NOTHING)
    assert success is False
    assert "1,000,001 characters" in result["message"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "jsonfields"}, "unknown check kind 'jsonfields', did you mean 'json_fields'?"),
        ({"kind": "vibes"}, f"kinds: {', '.join(KINDS)}"),
        ({}, "a check needs a kind"),
        ({"kind": "number"}, "parameter 'value' is missing"),
        ({"kind": "number", "value": "many"}, "value = 'many'"),
        ({"kind": "number", "value": 1, "tolerance": 2}, "did you mean 'rel_tolerance'?"),
        ({"kind": "contains", "text": ""}, "text = ''"),
        ({"kind": "regex", "pattern": "(a"}, "pattern = '(a': no regular expression: missing )"),
        ({"kind": "json_schema", "schema": {"type": "objekt"}}, "no JSON Schema: $.type: 'objekt'"),
        ({"kind": "json_schema", "shema": {}}, "did you mean 'schema'?"),
        ({"kind": "json_fields", "fields": {}}, "fields = {}"),
        (
            {"kind": "sql", "file": "a.csv", "rows": [], "query": "SELECT 1", "result": 2},
            "either query or result",
        ),
    ],
)
def test_what_a_task_file_gets_wrong_is_named(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckInvalid) as refused:
        check(spec)
    assert message in str(refused.value)
