"""External agents without any server: reports as the real clients gave them, and programs that behave badly."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from analysis.usage import UNKNOWN_USAGE, Usage
from db.work import Claimed
from scheduler.experiment import load
from workers.commands import CLIENTS
from workers.commands.base import Address
from workers.commands.folder import lay_out, written
from workers.commands.outcome import Ran, Reader
from workers.commands.process import MOST_OUTPUT_BYTES, Run, run_program
from workers.commands.programs import program_at, what_is_missing
from workers.gateway import Disposition
from workers.settling import Retries, may_be_paid, settle
from workers.strategies import Answer, Ended, Reply, StrategyInvalid, TaskView, strategy
from workers.strategies.command import Command

RECORDED = Path(__file__).parents[1] / "recorded" / "commands"
KEY = "sk-marked-key-7f3a9c"
TOKENS = {"input_tokens": 900, "output_tokens": 60}
READER = Reader(CLIENTS["generic"], program="agent", model="m", key=KEY)


def ran(
    client: str,
    printed: str,
    *,
    code: int | None = 0,
    ended: Literal["by itself", "time", "output", "worker"] = "by itself",
    last_words: bytes = b"",
    model: str = "m",
) -> Ran:
    run = Run(ended=ended, code=code, printed=printed.encode(), last_words=last_words, latency_ms=5)
    return Reader(CLIENTS[client], program="agent", model=model, key=KEY).read(run, wall_time_s=60)


def recorded(name: str, **changes: Any) -> Ran:
    client = "codex" if name.startswith("codex") else "claude-code"
    return ran(client, (RECORDED / name).read_text(), code=1, **changes)


def generic(**said: Any) -> Ran:
    return ran("generic", json.dumps(said))


@pytest.mark.parametrize(
    ("name", "tokens", "answer", "row"),
    [
        # 2 x 8,3xx of the conversation are 16,671 in; the sub-agent's 1,892 in and 3 out come on top
        ("claude_code_sub_agent.json", (16_671 + 1_892, 30 + 3), "42", "run"),
        ("codex_ok.jsonl", (9_952, 32), "Hello! gpt-4o-mini received: You are a", "turn"),
    ],
)
def test_usage_as_the_real_clients_report_it(
    name: str, tokens: tuple[int, int], answer: str, row: str
) -> None:
    found = recorded(name, model="claude-sonnet-4-6")
    assert (found.status, found.usage.input_tokens, found.usage.output_tokens) == ("ok", *tokens)
    assert (found.content or "").startswith(answer)
    assert (found.finish_reason, found.later_turns, found.priced) == (row, (), True)
    assert found.raw_usage is not None


@pytest.mark.parametrize(
    ("name", "status", "error", "next_", "says"),
    [
        (
            "claude_code_401.json",
            401,
            "unauthorized",
            "pause_run",
            "API Error: 401 Unauthorized. The gateway does not accept",
        ),
        (
            "claude_code_402.json",
            402,
            "payment_required",
            "pause_run",
            "402 Payment required. The account must be paid up",
        ),
        ("claude_code_500.json", 500, "server_error", "retry", "API Error: 500 Internal server error"),
        ("codex_401.jsonl", 401, "unauthorized", "pause_run", "unexpected status 401 Unauthorized"),
        ("codex_429.jsonl", 429, "rate_limit", "throttled", "last status: 429 Too Many Requests"),
    ],
)
def test_a_refusal_of_the_gateway_is_one_clear_line(
    name: str, status: int, error: str, next_: str, says: str
) -> None:
    found = recorded(name)
    assert (found.status, found.http_status, found.error, found.disposition) == (
        "error",
        status,
        error,
        next_,
    )
    assert says in (found.message or "")
    assert "\n" not in (found.message or "")
    assert found.usage == UNKNOWN_USAGE
    assert found.content is None


@pytest.mark.parametrize(
    ("name", "status", "tokens", "says"),
    [
        ("claude_code_max_turns.json", "error", 8_305 + 50, "agent: Reached maximum number of turns (1)"),
        # Nobody says what it took: it may have been paid.
        ("claude_code_refused.json", "unknown", None, "agent: API Error: Unable to connect to API (ConnectionRefused)"),
        ("codex_500.jsonl", "unknown", None, "temporary errors."),
    ],
)  # fmt: skip
def test_another_error_fails_the_job_and_keeps_what_it_took(
    name: str, status: str, tokens: int | None, says: str
) -> None:
    found = recorded(name)
    assert (found.status, found.error, found.disposition) == (status, "client_error", "fail")
    assert found.usage.total_tokens == tokens
    assert says.rstrip(".") in (found.message or "")


@pytest.mark.parametrize(
    ("found", "status", "error", "next_", "says"),
    [
        (
            ran("generic", ""),
            "unknown",
            "bad_response",
            "fail",
            "agent ended with exit code 0, but it printed nothing. It said nothing",
        ),
        (
            ran("generic", "hello", code=3),
            "unknown",
            "bad_response",
            "fail",
            "exit code 3, but it printed no JSON object. Its last words: hello",
        ),
        (ran("codex", "{}"), "unknown", "bad_response", "fail", "it printed no event thread.started"),
        (
            ran("claude-code", '{"type": "x"}'),
            "unknown",
            "bad_response",
            "fail",
            'no JSON object of type "result"',
        ),
        (
            ran("generic", "{}", last_words=b"Error: no file x\nBun 1.4"),
            "unknown",
            "bad_response",
            "fail",
            "Its last words: Error: no file x",
        ),
        (
            ran("generic", "", code=127, last_words=b"env: node: No such file"),
            "error",
            "program_missing",
            "pause_run",
            "agent cannot be run: Its last words: env: node: No such file",
        ),
        (
            ran("generic", "", ended="time", code=None),
            "unknown",
            "timeout",
            "fail",
            "agent had not ended after wall_time_s = 60 and was stopped. It said nothing",
        ),
        (
            recorded("codex_refused.jsonl", ended="time"),
            "unknown",
            "timeout",
            "fail",
            "was stopped. Reconnecting... waiting for network (Connection failed",
        ),
        (
            ran("generic", "x", ended="output", code=None),
            "unknown",
            "output_too_large",
            "fail",
            "agent printed without end and was stopped",
        ),
        (
            ran("generic", "", ended="worker", code=None),
            "unknown",
            "cancelled",
            "retry",
            "The worker was stopped, and agent with it",
        ),
        (
            generic(answer="  ", usage=TOKENS),
            "error",
            "empty_output",
            "trial_fails",
            "agent gave an empty answer",
        ),
        (
            generic(error="no key", http_status=401),
            "unknown",  # nobody knows what it asked for before
            "unauthorized",
            "pause_run",
            "agent: no key. The gateway does not accept the key",
        ),
        (generic(error="out of luck", usage=TOKENS), "error", "client_error", "fail", "agent: out of luck"),
    ],
)
def test_whatever_goes_wrong_is_one_clear_line(
    found: Ran, status: str, error: str, next_: str, says: str
) -> None:
    assert (found.status, found.error, found.disposition) == (status, error, next_)
    assert says in (found.message or "")
    assert found.usage.total_tokens == (960 if error in ("empty_output", "client_error") else None)


REFUSED = {
    "type": "turn.failed",
    "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"},
}
RETRIES = Retries(max_tries=3, backoff_s=0, backoff_max_s=0, max_throttled_s=86_400, max_lost_leases=3)
JOB = Claimed(
    job=1, run=1, lane=1, trial=1, task=1, strategy=1, repeat=1, try_=1, round=1, sample=1, dispatch_no=1, attempt=0,
    failures=0, throttled_s=0, retry_reason=None, request=None, reserve_tokens=1000, reserve_cost_usd=None, proven=True,
)  # fmt: skip


def codex(*items: str, end: dict[str, Any] = REFUSED) -> Ran:
    done = [{"type": "item.completed", "item": {"type": kind}} for kind in items]
    events = [{"type": "thread.started", "thread_id": "t"}, *done, end]
    return ran("codex", "\n".join(map(json.dumps, events)), code=1)


def claude(*, turns: int, **said: Any) -> Ran:
    said = {"type": "result", "is_error": True, "api_error_status": 429, "num_turns": turns} | said
    return ran("claude-code", json.dumps(said), code=1)


@pytest.mark.parametrize(
    ("found", "status", "failures"),
    [
        (codex("error"), "error", 0),  # its own warning, then refused at once: nothing was paid
        (codex(*["command_execution"] * 10), "unknown", 1),
        (claude(turns=1), "error", 0),
        (claude(turns=2), "unknown", 1),
        (claude(turns=2, usage=TOKENS), "error", 1),  # 960 were paid
        (generic(error="refused", http_status=429), "unknown", 1),
    ],
)
def test_a_refusal_after_some_work_may_have_been_paid(found: Ran, status: str, failures: int) -> None:
    assert (found.status, found.error, found.http_status) == (status, "rate_limit", 429)
    assert (found.disposition, may_be_paid(found)) == ("throttled", failures == 1)

    def state(before: int) -> tuple[str, int]:
        settled = settle(replace(JOB, failures=before), 1, found, price=None, retries=RETRIES)
        assert settled.throttled
        return settled.next_state, settled.failures

    assert state(before=1) == ("pending", failures)
    # Two tries are used up and this is the third; what was not paid waits on.
    assert state(before=2) == (("failed", 1) if failures else ("pending", 0))


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity"])
def test_a_number_that_is_none_is_unknown_and_the_answer_stays(number: str) -> None:
    tokens = json.dumps(TOKENS)[:-1]
    said = f'{{"answer": "42", "total_cost_usd": {number}, "usage": {tokens}, "more": [{number}]}}}}'
    found = ran("generic", said)
    assert (found.status, found.content, found.usage.total_tokens) == ("ok", "42", 960)
    assert json.dumps(found.raw_usage, allow_nan=False).count("null") >= 1
    lost = ran("generic", f'{{"answer": "42", "usage": {{"input_tokens": {number}, "output_tokens": 5}}}}')
    assert (lost.status, lost.content, lost.usage.input_tokens) == ("ok", "42", None)


def test_a_program_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    assert what_is_missing(str(program), where="h") == (
        f"{program} is not installed on h, or not on its PATH",
        "Install it on every worker, or name its path in the strategy's command.",
    )
    program.touch(mode=0o644)
    said = (f"{program} is there on h, but cannot be executed", f"Allow it: chmod +x {program}")
    assert what_is_missing(str(program), where="h") == said
    program.chmod(0o755)
    assert (what_is_missing(str(program), where="h"), program_at(str(program))) == (None, program)


def test_an_empty_answer_of_unknown_usage_may_have_been_paid() -> None:
    for found in (generic(answer=" "), generic(answer="", usage={"input_tokens": 0, "output_tokens": 0})):
        assert (found.status, found.error, found.disposition) == ("unknown", "empty_output", "trial_fails")
        assert found.usage == UNKNOWN_USAGE


def test_marks_of_models_are_no_other_models() -> None:
    """9,000 + 100 in and 90 + 5 out, all by the model that the gateway knows as m."""
    used = {"m[1m]": (9000, 90), "m": (100, 5), "unused": (0, 0)}
    counts = {model: {"inputTokens": i, "outputTokens": o} for model, (i, o) in used.items()}
    said = json.dumps({"type": "result", "is_error": False, "result": "42", "modelUsage": counts})
    for model, priced in (("m", True), ("m[1m]", True), ("n", False)):
        found = ran("claude-code", said, model=model)
        assert (found.usage.input_tokens, found.usage.output_tokens, found.priced) == (9100, 95, priced)


def test_zeros_beside_a_cost_are_unknown() -> None:
    zeros = {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0}
    said = {"type": "result", "is_error": False, "result": "42", "usage": zeros, "total_cost_usd": 0.07}
    for found in (ran("claude-code", json.dumps(said)), generic(answer="42", usage=zeros, cost_usd=0.07)):
        assert (found.status, found.content, found.usage) == ("ok", "42", UNKNOWN_USAGE)
        assert found.raw_usage is not None
        assert 0.07 in found.raw_usage.values()  # the note


def test_a_turn_is_a_row_where_each_tells_its_usage() -> None:
    turns = [
        {"usage": {"prompt_tokens": 10, "completion_tokens": 5}, "content": "I look."},
        {"usage": TOKENS},
    ]
    found = generic(answer="42", turns=turns)
    assert (found.content, found.usage.total_tokens, found.finish_reason) == ("I look.", 15, "turn")
    assert [(turn.content, turn.usage.total_tokens) for turn in found.later_turns] == [("42", 960)]
    assert found.whole.usage.total_tokens == 15 + 960
    # With a hole in it, a sum is not the whole.
    holed = generic(answer="42", turns=[*turns, {}], usage=TOKENS)
    assert (holed.content, holed.usage.total_tokens, holed.finish_reason) == ("42", 960, "run")
    assert holed.later_turns == ()


def test_turns_of_codex_are_differences() -> None:
    """Its sums are those of the session: 100, then 250 in; 10, then 30 out."""
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    usage = [dict(zip(names, counts, strict=True)) for counts in ((100, 40, 10, 2), (250, 90, 30, 7))]
    events: list[dict[str, Any]] = [{"type": "thread.started", "thread_id": "t"}]
    for sums in usage:
        events.append({"type": "item.completed", "item": {"type": "agent_message", "text": "42"}})
        events.append({"type": "turn.completed", "usage": sums})
    found = ran("codex", "\n".join(map(json.dumps, events)))
    assert found.usage == Usage(input_tokens=100, output_tokens=10, total_tokens=110,
                                cached_input_tokens=40, reasoning_tokens=2)  # fmt: skip
    [second] = found.later_turns
    assert second.usage == Usage(input_tokens=150, output_tokens=20, total_tokens=170,
                                 cached_input_tokens=50, reasoning_tokens=5)  # fmt: skip


def test_another_model_than_the_one_that_was_asked_has_no_price() -> None:
    assert recorded("claude_code_sub_agent.json", model="claude-sonnet-4-6").priced
    assert not recorded("claude_code_sub_agent.json", model="claude-opus-4-6").priced


def test_no_text_holds_the_key() -> None:
    for found in (
        generic(answer=f"it is {KEY}", usage=TOKENS),
        generic(error=f"refused {KEY}"),
        Ran(
            status="ok",
            disposition=Disposition.USED,
            message=READER.note(f"1 entry was not kept: '{KEY[:12]}…'"),
        ),
        ran("generic", "", last_words=f"Error: {KEY}".encode()),
    ):
        assert KEY not in repr(found)
        assert "[key]" in (found.content or found.message or "")


@pytest.mark.parametrize("name", CLIENTS)
def test_the_key_is_in_the_environment_alone(name: str) -> None:
    client = CLIENTS[name]
    for base_url in ("http://gateway/v1", None):
        address = Address(base_url=base_url, model="m", key=KEY, key_variable="MY_KEY")
        assert KEY not in " ".join(client.arguments(address, ["--more"]))
        assert "--more" in client.arguments(address, ["--more"])
        assert KEY in client.variables(address).values()


@pytest.mark.parametrize(
    ("name", "base_url", "wanted"),
    [
        ("claude-code", "https://taotoken.net/api", "https://taotoken.net/api"),
        ("claude-code", "https://gateway/v1/", "https://gateway"),
        ("codex", "https://gateway/v1", "https://gateway/v1"),
        ("generic", "https://gateway/v1", "https://gateway/v1"),
    ],
)
def test_base_urls(name: str, base_url: str, wanted: str) -> None:
    assert CLIENTS[name].base_url(base_url) == wanted


# Processes.


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "prompt.txt").write_text("the prompt")
    return tmp_path


async def run(scratch: Path, code: str, *, wall_time_s: float = 60, stopped: Any = None) -> Run:
    return await run_program(
        [sys.executable, "-c", code],
        scratch,
        {"PATH": os.environ["PATH"]},
        wall_time_s=wall_time_s,
        stopped=stopped or asyncio.get_running_loop().create_future(),
    )


async def test_a_program_gets_its_prompt_folder_and_environment(scratch: Path) -> None:
    found = await run(scratch, "import os, sys; print(input(), os.getcwd(), *os.environ); sys.exit(3)")
    assert (found.ended, found.code) == ("by itself", 3)
    said = found.printed.decode().split()
    assert said[:3] == ["the", "prompt", str(scratch / "work")]
    assert set(said[3:]) <= {"PATH", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}


async def test_a_program_that_hangs_is_ended_with_all_that_it_started(scratch: Path) -> None:
    """All hold the pipe open, one of them in a session of its own: it ends when all are gone."""
    os.mkfifo(scratch / "alive")
    code = "import subprocess; f = open('../alive', 'w'); "
    code += "subprocess.Popen(['sleep', '1000'], stdout=f, start_new_session=True); "
    code += "subprocess.run(['sleep', '1000'], stdout=f)"
    reading = asyncio.create_task(asyncio.to_thread((scratch / "alive").read_bytes))
    found = await run(scratch, code, wall_time_s=2)
    assert (found.ended, found.code) == ("time", None)
    assert await reading == b""


async def test_a_program_that_kills_its_guardian_is_ended_with_its_group(scratch: Path) -> None:
    os.mkfifo(scratch / "alive")
    code = "import os, subprocess, time; f = open('../alive', 'w'); "
    code += "subprocess.Popen(['sleep', '1000'], stdout=f); os.kill(os.getppid(), 9); time.sleep(1000)"
    reading = asyncio.create_task(asyncio.to_thread((scratch / "alive").read_bytes))
    await run(scratch, code, wall_time_s=3)
    assert await reading == b""  # both had it open, and are gone


async def test_a_program_that_prints_without_end_is_ended(scratch: Path) -> None:
    found = await run(scratch, "while True: print('x' * 100_000)")
    assert (found.ended, found.code, len(found.printed)) == ("output", None, MOST_OUTPUT_BYTES)


async def test_a_program_ends_when_the_worker_stops(scratch: Path) -> None:
    stopped = asyncio.get_running_loop().create_future()
    stopped.set_result(None)
    found = await run(scratch, "import time; time.sleep(1000)", stopped=stopped)
    assert (found.ended, found.code) == ("worker", None)


def test_a_worker_that_is_killed_leaves_no_program_and_no_folder(scratch: Path) -> None:
    alive = scratch.parent / f"{scratch.name}-alive"
    os.mkfifo(alive)
    code = f"""
import asyncio, sys
from pathlib import Path
from workers.commands.process import run_program
async def main():
    program = "import time; f = open({str(alive)!r}, 'w'); f.write('here'); f.flush(); time.sleep(1000)"
    await run_program([sys.executable, "-c", program], Path({str(scratch)!r}), {{}}, wall_time_s=1000,
                      stopped=asyncio.get_running_loop().create_future())
asyncio.run(main())
"""
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    with alive.open() as pipe:
        assert pipe.read(4) == "here"
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert pipe.read() == ""  # the program is gone
    alive.unlink()


# Folders.


def test_what_is_kept_of_a_folder(tmp_path: Path) -> None:
    task_files = {"data/birds.csv": b"a,b\n"}
    lay_out(tmp_path, task_files)
    (tmp_path / "data" / "birds.csv").write_text("changed")
    (tmp_path / "result.json").write_text(json.dumps({"key": KEY}))
    (tmp_path / "large.bin").write_bytes(b"x" * 1_000_001)
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / f"{KEY}.json").write_text("{}")
    (tmp_path / f"x{KEY}").mkdir()
    os.mkfifo(tmp_path / "pipe")
    kept, not_kept = written(tmp_path, task_files, key=KEY)
    assert kept == {"result.json": b'{"key": "[key]"}'}
    assert not_kept == ["large.bin", "link", "node_modules", "pipe", "[key].json", "x[key]"]
    with pytest.raises(ValueError, match="leads out of the folder"):
        lay_out(tmp_path, {"../outside": b""})


# The strategy.

PARAMS = {"model": "m", "client": "codex", "max_total_tokens": 1000}
TASK = TaskView(task_id="t", goal="How many?", files={"birds.csv": "a,b\n"})


def test_a_run_is_one_call_that_reserves_its_bound() -> None:
    [call] = strategy("command", PARAMS).opening(TASK)
    assert (call.round, call.sample, call.model, call.max_tokens) == (1, 1, "m", 1000)
    assert [message["content"] for message in call.messages] == [
        "How many?\n\nFiles in the present folder:\n- birds.csv"
    ]


def test_a_trial_that_uses_more_than_its_bound_has_failed() -> None:
    built, reply = strategy("command", PARAMS), Reply(round=1, sample=1, content="42", total_tokens=1000)
    assert built.proceed(TASK, [reply]) == Answer(text="42")
    assert built.proceed(TASK, [replace(reply, total_tokens=None)]) == Answer(text="42")
    ended = Ended(reason="tokens", message="1,001 tokens used, max_total_tokens = 1,000")
    assert built.proceed(TASK, [replace(reply, total_tokens=1001)]) == ended


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"client": "generic"}, "client = 'generic' needs command"),
        ({"max_total_tokens": None}, "parameter 'max_total_tokens' is missing"),
        ({"client": "cursor"}, "Input should be 'claude-code', 'codex' or 'generic'"),
        ({"command": "codex --yolo"}, "command = 'codex --yolo'"),
        ({"home": {"../x": ""}}, "'../x' is no file below HOME"),
        ({"base_url": "ftp://x"}, "must start with http://"),
    ],
)
def test_what_an_experiment_may_not_say(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(StrategyInvalid, match="strategy kind 'command'") as raised:
        strategy("command", PARAMS | changes)
    assert says in str(raised.value)


def test_the_example_is_complete_once_it_is_filled_in(tmp_path: Path) -> None:
    examples = Path(__file__).parents[2] / "examples"
    filled = (examples / "commands.toml").read_text().replace("<model>", "m")
    filled = re.sub(r'"<price[^"]*>"', "1.0", filled).replace("arena/", f"{examples}/arena/")
    (tmp_path / "commands.toml").write_text(filled)
    loaded = load(tmp_path / "commands.toml")
    assert [planned.strategy.kind for planned in loaded.strategies] == ["single", "command", "command"]
    assert loaded.warnings == []


def test_the_page_names_every_parameter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    table = page.split("| parameter |")[1].split("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= Command.model_fields.keys()
