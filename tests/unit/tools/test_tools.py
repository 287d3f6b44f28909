"""What the agent's tools give, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from workers import sandbox
from workers.tools import TOOLS, Folder, ToolCall, described, run_tool

CSV = b"species,mass,code\nAdelie,3700,007\nGentoo,5000.5,008\nGentoo,NA,009\n"
FILES = {"birds.csv": CSV, "data/notes.txt": b"one\ntwo\nthree\n"}


def folder(**written: bytes) -> Folder:
    return Folder(task_files=FILES, written=written)


def use(name: str, arguments: Any, files: Folder | None = None, *, most_chars: int = 5000) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = ToolCall(id="c1", name=name, arguments=text)
    result = run_tool(call, files or folder(), allowed=list(TOOLS), most_chars=most_chars)
    assert (result.id, result.name) == ("c1", name)
    return result.text


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("list_files", {}, "birds.csv (66 bytes)\ndata/notes.txt (14 bytes)"),
        ("list_files", "", "birds.csv (66 bytes)\ndata/notes.txt (14 bytes)"),
        ("read_file", {"name": "data/notes.txt"}, "Lines 1 to 3 of 3:\none\ntwo\nthree"),
        ("read_file", {"name": "data/notes.txt", "first_line": 2, "lines": 1}, "Lines 2 to 2 of 3:\ntwo"),
        (
            "read_file",
            {"name": "data/notes.txt", "first_line": 9},
            "data/notes.txt has 3 lines; line 9 is past its end.",
        ),
        ("query_csv", {"sql": "SELECT COUNT(*) AS n, AVG(mass) FROM birds"}, "n | AVG(mass)\n3 | 4350.25"),
        ("query_csv", {"sql": "SELECT code FROM birds WHERE mass IS NULL;"}, "code\n009"),
        ("query_csv", {"sql": "SELECT mass FROM birds WHERE code = '009'"}, "mass\nNULL"),
        ("query_csv", {"sql": "SELECT 1 WHERE 0"}, "1"),
        (
            "describe_csv",
            {"name": "birds.csv"},
            "birds.csv: 3 rows, table birds in SQL\n"
            "name species, type text, nulls 0, distinct 2, most_common {'Gentoo': 2, 'Adelie': 1}\n"
            # (3700 + 5000.5) / 2
            "name mass, type real, nulls 1, distinct 2, min 3700.0, max 5000.5, mean 4350.25\n"
            "name code, type text, nulls 0, distinct 3, most_common {'007': 1, '008': 1, '009': 1}",
        ),
        ("write_result", {"name": "out.json", "content": "{}"}, "out.json is written (2 bytes)."),
    ],
)
def test_what_tools_give(name: str, arguments: Any, expected: str) -> None:
    assert use(name, arguments) == expected


def test_what_was_written_can_be_read_queried_and_written_anew() -> None:
    files = folder()
    use("write_result", {"name": "a b.csv", "content": "x\n1\n2\n"}, files)
    assert use("query_csv", {"sql": "SELECT SUM(x) AS s FROM a_b"}, files) == "s\n3"
    use("write_result", {"name": "a b.csv", "content": "x\n5\n"}, files)
    assert use("query_csv", {"sql": "SELECT SUM(x) AS s FROM a_b"}, files) == "s\n5"
    assert (files.written, files.changed) == ({"a b.csv": b"x\n5\n"}, {"a b.csv"})


def test_a_damaged_csv_is_described_and_not_queried() -> None:
    files = Folder(task_files={"x.csv": b"a,b\n1,2\n3\n5,6\n7,8,9\n"})
    text = use("describe_csv", {"name": "x.csv"}, files)
    assert text.splitlines() == [
        "x.csv: 4 rows, table x in SQL",
        "Damaged: these rows have not 2 fields: 2, 4. They count in no column below, and SQL cannot be used before "
        "they are put right.",
        "name a, type integer, nulls 0, distinct 2, min 1, max 5, mean 3.0",
        "name b, type integer, nulls 0, distinct 2, min 2, max 6, mean 4.0",
    ]
    told = use("query_csv", {"sql": "SELECT * FROM x"}, files)
    assert told == "Error: row 2 of the CSV has not as many fields as its header"


def test_two_files_of_one_name_are_two_tables() -> None:
    files = Folder(task_files={"a/x.csv": b"n\n1\n", "b/x.csv": b"n\n2\n"})
    assert use("query_csv", {"sql": "SELECT x.n, x__2.n FROM x, x__2"}, files) == "n | n\n1 | 2"


def test_long_results_are_cut_and_say_so() -> None:
    assert use("read_file", {"name": "birds.csv"}, most_chars=20).endswith(
        "Lines 1 to 4 of 4:\ns\n[cut here: 20 of 84 characters are shown]"
    )


def test_a_tool_that_the_experiment_leaves_out_is_unknown() -> None:
    call = ToolCall(id="1", name="query_csv", arguments='{"sql": "SELECT 1"}')
    result = run_tool(call, folder(), allowed=["list_files"], most_chars=100)
    assert result.text == "Error: unknown tool kind 'query_csv'; kinds: list_files"


def test_tools_are_described_as_requests_take_them() -> None:
    [query] = [tool["function"] for tool in described(["query_csv"])]
    assert query["name"] == "query_csv"
    assert query["description"].startswith("Run one SELECT (SQLite) over the CSV files.")
    assert query["parameters"] == {
        "type": "object",
        "properties": {"sql": {"type": "string", "description": "One SELECT statement."}},
        "required": ["sql"],
        "additionalProperties": False,
    }
    assert {tool["function"]["name"] for tool in described(list(TOOLS))} == set(TOOLS)


ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT"
OUTSIDE = "{outside}/stolen"

# Tool, arguments, what the model is told. `{outside}` is a folder beside, with a file `secret` in it.
HOSTILE: list[tuple[str, Any, str]] = [
    ("read_file", {"name": "../secret"}, "there is no file"),
    ("read_file", {"name": "data/../../secret"}, "there is no file"),
    ("read_file", {"name": "{outside}/secret"}, "there is no file"),
    ("read_file", {"name": "file://{outside}/secret"}, "there is no file"),
    ("read_file", {"name": "/proc/self/environ"}, "there is no file"),
    ("read_file", {"name": "link"}, "there is no file"),
    ("read_file", {"name": "birds.csv\0.txt"}, "there is no file"),
    ("read_file", {"name": "http://127.0.0.1:1/x"}, "there is no file"),
    ("describe_csv", {"name": "/etc/passwd"}, "there is no file"),
    ("write_result", {"name": "../stolen", "content": "x"}, "no plain file name"),
    ("write_result", {"name": OUTSIDE, "content": "x"}, "no plain file name"),
    ("write_result", {"name": "..", "content": "x"}, "no plain file name"),
    ("write_result", {"name": "a/../../stolen", "content": "x"}, "no plain file name"),
    ("write_result", {"name": "C:\\stolen", "content": "x"}, "no plain file name"),
    ("write_result", {"name": "stolen\0", "content": "x"}, "no plain file name"),
    ("write_result", {"name": ".bashrc", "content": "x"}, "no plain file name"),
    ("write_result", {"name": "Birds.CSV", "content": "x"}, "belongs to the task"),
    ("write_result", {"name": "Data", "content": "x"}, "belongs to the task"),
    ("write_result", {"name": "big", "content": "x" * 1_000_001}, "a file may have 1,000,000"),
    ("query_csv", {"sql": "ATTACH '{outside}/stolen' AS a"}, "ATTACH or VACUUM is not allowed"),
    ("query_csv", {"sql": "VACUUM INTO '{outside}/stolen'"}, "ATTACH or VACUUM is not allowed"),
    ("query_csv", {"sql": "COPY birds TO '{outside}/stolen'"}, "syntax error"),
    ("query_csv", {"sql": "SELECT load_extension('{outside}/evil.so')"}, "not allowed"),
    ("query_csv", {"sql": "SELECT writefile('{outside}/stolen', 'x')"}, "no such function"),
    ("query_csv", {"sql": "SELECT readfile('{outside}/secret')"}, "no such function"),
    ("query_csv", {"sql": "SELECT * FROM read_csv('{outside}/secret')"}, "no such table"),
    ("query_csv", {"sql": "PRAGMA temp_store_directory = '{outside}'"}, "PRAGMA is not allowed"),
    ("query_csv", {"sql": "SELECT * FROM pragma_database_list"}, "is not allowed"),
    ("query_csv", {"sql": "DELETE FROM birds"}, "anything but reading is not allowed"),
    ("query_csv", {"sql": "CREATE TABLE t AS SELECT 1"}, "anything but reading is not allowed"),
    ("query_csv", {"sql": "SELECT 1; DROP TABLE birds"}, "one statement at a time"),
    ("query_csv", {"sql": "SELECT hex(zeroblob(10000000000))"}, "too big"),
    ("query_csv", {"sql": f"{ENDLESS} hex(zeroblob(400000)) FROM c"}, "[cut after 0 rows"),
    ("query_csv", {"sql": f"{ENDLESS} n FROM c"}, "[cut after 200 rows"),
    ("query_csv", {"sql": f"{ENDLESS} COUNT(*) FROM c"}, "stopped: it took more than"),
    ("query_csv", {"sql": f"{ENDLESS} group_concat(hex(randomblob(400000))) FROM c"}, "Error: "),
    ("query_csv", {"sql": "SELECT * FROM c" + ", birds" * 100}, "Error: "),
    ("shell", {"command": "touch {outside}/stolen"}, "unknown tool kind 'shell'"),
    ("__import__", {"name": "os"}, "unknown tool kind '__import__'"),
    ("read_file", '{"name": "birds.csv"', "the arguments are no JSON"),
    ("read_file", "[" * 100_000, "the arguments are no JSON"),
    ("read_file", ["birds.csv"], "the arguments are no JSON object"),
    ("read_file", {"name": "birds.csv", "mode": "w"}, "unknown parameter 'mode'"),
    ("read_file", {"name": "birds.csv", "lines": 10**9}, "less than or equal to 10000"),
]  # fmt: skip


def hostile(arguments: Any, outside: Path) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return text.replace("{outside}", str(outside))


@pytest.mark.parametrize(("name", "arguments", "told"), HOSTILE)
def test_hostile_calls_are_refused_or_cut_and_write_nothing(
    name: str, arguments: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "CPU_S", 1)
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("the secret text")
    (inside / "link").symlink_to(tmp_path / "secret")
    monkeypatch.chdir(inside)
    monkeypatch.setenv("TAOTOKEN_API_KEY", "sk-the-secret-text")
    files = folder(**{"mine.txt": b"kept"})
    text = use(name, hostile(arguments, tmp_path), files)
    assert told in text
    assert "secret text" not in text
    assert len(text) <= 5100
    assert (files.changed, files.written) == (set(), {"mine.txt": b"kept"})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["inside", "link", "secret"]


def test_there_are_thirty_hostile_calls_at_least() -> None:
    assert len(HOSTILE) >= 30


def test_a_folder_holds_so_many_files_and_bytes() -> None:
    files = folder()
    for number in range(20):
        assert "is written" in use("write_result", {"name": f"f{number}", "content": "x"}, files)
    assert "there are 20 files already" in use("write_result", {"name": "f20", "content": "x"}, files)
    full = folder(**{f"f{number}": b"x" * 1_000_000 for number in range(5)})
    assert "may have 5,000,000 bytes" in use("write_result", {"name": "more", "content": "x"}, full)
