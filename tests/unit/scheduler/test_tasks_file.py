"""Task files: each mistake is one line with file and line number; whatever JSON may hold is read as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.errors import ExperimentInvalid
from scheduler.tasks import MAX_FILE_BYTES, load_tasks
from tests.experiments import task

FIELDS = "Allowed: id, goal, category, difficulty, files, reference, checks, weight."
DIGEST = "492d5ea496056f1a6a6592241032fab764c321596317930b4fa0e1e8bc3b7470"
GOOD = {"id": "a", "goal": "Say yes."}

# the second line of the file (or its fields), and what is said of it
LINES: dict[str, tuple[Any, str]] = {
    "no JSON": (
        "{'id': 'b'}",
        "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1).",
    ),
    "cut": ('{"id": "b", "goal": "Sa', "not JSON: Unterminated string"),
    "two objects": ('{"id": "b", "goal": "x"} {}', "not JSON: Extra data"),
    "no object": ("[]", "a task is a JSON object, found list."),
    "nested beyond all": ("[" * 100_000, "not JSON: "),
    "no id": ({"goal": "x"}, "id: "),
    "no goal": ({"id": "b"}, "goal: "),
    "empty goal": ({"id": "b", "goal": ""}, "goal: String should have at least 1 character"),
    "a number for an id": ({"id": 7, "goal": "x"}, "id: Input should be a valid string"),
    "unknown field": ({"goals": "x"}, "goals: "),
    "the fields": ({"goals": "x"}, FIELDS),
    "no weight": ({"weight": 0}, "weight: Input should be greater than 0"),
    "infinite weight": ({"weight": float("inf")}, "weight: Input should be a finite number"),
    "the same id": ({"id": "a"}, "task id 'a' is already that of line 1. Rename one."),
    "NUL": ({"goal": "a\x00"}, "holds a NUL character, a lone surrogate or U+F8F0. Remove it."),
    "NUL far inside": ({"reference": {"a": ["\x00"]}}, "holds a NUL character"),
    "the store's own mark": ({"goal": "\uf8f0"}, "holds a NUL character, a lone surrogate or U+F8F0."),
    "half a character": ({"goal": "\ud800"}, "holds a NUL character"),
    "unknown check": (
        {"checks": [{"kind": "exakt", "value": "1"}]},
        "checks: unknown check kind 'exakt', did you mean 'exact'?",
    ),
    "a check without a kind": ({"checks": [{"value": 1}]}, "checks: "),
    "a wrong check": ({"checks": [{"kind": "regex", "pattern": "("}]}, "checks: "),
    "a file that is not there": (
        {"files": ["none.csv"]},
        "files: 'none.csv' cannot be read (No such file or directory).",
    ),
    "a folder": ({"files": ["."]}, "files: '.' cannot be read (Is a directory)."),
    "a file outside": (
        {"files": ["../outside.csv"]},
        "files: '../outside.csv' lies outside the task file's folder. Move it there.",
    ),
    "a file by its full name": (
        {"files": ["/etc/passwd"]},
        "files: '/etc/passwd' lies outside the task file's folder.",
    ),
    "a link that leads outside": (
        {"files": ["link.csv"]},
        "files: 'link.csv' lies outside the task file's folder.",
    ),
    "a file too large": (
        {"files": ["large.bin"]},
        f"files: 'large.bin' is larger than {MAX_FILE_BYTES:,} bytes.",
    ),
    "a file's name with NUL": ({"files": ["a\x00"]}, "holds a NUL character"),
    "a database in the goal": (
        {"goal": "Ask postgresql://me:pw@db/x now."},
        "goal names a database URL (postgresql://…).",
    ),
    "a database in capitals": (
        {"goal": "MYSQL+pymysql://h/x"},
        "goal names a database URL (MYSQL+pymysql://…).",
    ),
    "a database in a file": ({"files": ["leak.txt"]}, "file 'leak.txt' names a database URL (redis://…)."),
    "a database in a file's name": ({"files": ["sqlite://x"]}, "files: 'sqlite://x' cannot be read"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files that a task may or may not name."""
    inside = tmp_path / "tasks"
    inside.mkdir()
    (tmp_path / "outside.csv").write_text("secret")
    (inside / "link.csv").symlink_to(tmp_path / "outside.csv")
    (inside / "leak.txt").write_bytes(b"\xff\xfe url = redis://:pw@host/0\n")
    (inside / "data.csv").write_text("a,b\n1,2\n")
    with (inside / "large.bin").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    return inside


def refusal(path: Path) -> str:
    with pytest.raises(ExperimentInvalid) as refused:
        load_tasks(path)
    return str(refused.value)


def written(folder: Path, *lines: Any) -> Path:
    """A task file of these lines; of a dict only what differs from a good task is given."""
    path = folder / "tasks.jsonl"
    texts = [
        line if isinstance(line, str) else json.dumps({"id": f"t{n}", "goal": "x"} | line)
        for n, line in enumerate(lines)
    ]
    path.write_text("\n".join(texts) + "\n")
    return path


@pytest.mark.parametrize("case", LINES)
def test_a_mistake_is_one_line_with_its_place(folder: Path, case: str) -> None:
    line, message = LINES[case]
    path = folder / "tasks.jsonl"
    filled = {} if case in ("no id", "no goal") else {"id": "b", "goal": "x"}
    second = line if isinstance(line, str) else json.dumps(filled | line)
    path.write_text(f"{json.dumps(GOOD)}\n{second}\n")
    said = refusal(path)
    assert said.startswith(f"{path}:2: ")
    assert message in said
    assert "\n" not in said
    assert "pw" not in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no task. Write one JSON object a line with `id` and `goal`."),
        (b"\n  \n\t\r\n", "holds no task."),
        (b'{"id": "a", "goal": "caf\xe9"}', "byte 24 is no UTF-8. Save the file as UTF-8."),
        (json.dumps(GOOD).encode("utf-16"), "byte 0 is no UTF-8."),
        (None, "cannot be read (No such file or directory). Name a task file in `tasks`."),
    ],
)
def test_a_file_that_holds_no_tasks_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "tasks.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert refusal(path).startswith(f"{path}: ")
    assert message in refusal(path)


def test_a_folder_holds_no_tasks(tmp_path: Path) -> None:
    assert "cannot be read (Is a directory)" in refusal(tmp_path)


def test_byte_order_mark_crlf_and_blank_lines_are_no_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    lines = [json.dumps(GOOD), "", json.dumps(GOOD | {"id": "b"})]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    tasks, _ = load_tasks(path)
    assert [task.line.id for task in tasks] == ["a", "b"]
    # Blank lines count: what a message names is the line of an editor.
    path.write_bytes(path.read_bytes() + b"\r\n\r\n{")
    assert refusal(path).startswith(f"{path}:5: ")


@pytest.mark.parametrize(
    "character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\U0001f600", "\\u0000", "\ufeff"]
)
def test_no_character_inside_a_string_ends_a_line(tmp_path: Path, character: str) -> None:
    goal = f"before{character}after"
    path = tmp_path / "tasks.jsonl"
    raw = json.dumps(GOOD | {"goal": goal}, ensure_ascii=character < " ")
    path.write_text(raw + "\n" + json.dumps(GOOD | {"id": "b"}), encoding="utf-8")
    tasks, _ = load_tasks(path)
    assert [task.line.goal for task in tasks] == [goal, "Say yes."]


@pytest.mark.parametrize(("number", "warned"), [(1, True), (19, True), (20, False)])
def test_few_tasks_are_warned_of(tmp_path: Path, number: int, warned: bool) -> None:
    path = written(tmp_path, *(task(index) for index in range(1, number + 1)))
    _, warnings = load_tasks(path)
    words = (
        f"Only {number} task{'s' if number > 1 else ''}: conclusions will be weak; 20 or more are advised."
    )
    assert warnings == ([words] if warned else [])


def test_files_are_read_once_and_known_by_their_content(folder: Path) -> None:
    path = written(folder, {"files": ["data.csv"]}, {"files": ["data.csv", "./data.csv"]})
    first, second = load_tasks(path)[0]
    assert first.files == {"data.csv": b"a,b\n1,2\n"}
    assert second.files["data.csv"] is first.files["data.csv"]
    assert set(second.file_hashes) == {"data.csv", "./data.csv"}
    # printf 'a,b\\n1,2\\n' | sha256sum
    assert set(second.file_hashes.values()) == {DIGEST} == set(first.file_hashes.values())


def test_a_link_within_the_folder_and_a_file_in_a_subfolder_are_allowed(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "x.csv").write_text("x")
    (folder / "near.csv").symlink_to(folder / "deep" / "x.csv")
    [found] = load_tasks(written(folder, {"files": ["near.csv", "deep/x.csv", "deep/../deep/x.csv"]}))[0]
    assert set(found.files.values()) == {b"x"}


@pytest.mark.parametrize(
    "goal",
    [
        "See https://example.org/postgres.",
        "Explain what mysql:// means? No: what MySQL means.",
        "a sqlite file",
        "redis",
    ],
)
def test_addresses_that_are_no_database_s_are_allowed(folder: Path, goal: str) -> None:
    if "mysql://" in goal:
        assert "names a database URL" in refusal(written(folder, {"goal": goal}))
    else:
        assert load_tasks(written(folder, {"goal": goal}))[0][0].line.goal == goal


def test_checks_may_name_a_database(folder: Path) -> None:
    """A check that no answer holds a connection string has to name one."""
    check = {"kind": "not_contains", "text": "postgresql://"}
    assert load_tasks(written(folder, {"checks": [check]}))[0][0].line.checks == [check]


def test_difficulty_may_be_a_word_or_a_number(folder: Path) -> None:
    tasks, _ = load_tasks(written(folder, {"difficulty": "hard"}, {"difficulty": 0.7}, {}))
    assert [task.line.difficulty for task in tasks] == ["hard", 0.7, ""]


def test_prompt_bytes_are_no_fewer_than_the_bytes_shown(folder: Path) -> None:
    [found] = load_tasks(written(folder, {"goal": "ä" * 10, "files": ["data.csv"]}))[0]
    # 20 bytes of goal, 8 of name and 8 of content, and something around them
    assert found.prompt_bytes >= 36
