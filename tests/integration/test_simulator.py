"""The simulated gateway over real sockets: the official SDK, plain HTTP clients, bare sockets."""

import asyncio
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import openai
import pytest

from paretoken.errors import InputError, ParetokenError
from paretoken.simulator import SimulatedGateway, launch
from paretoken.simulator.faults import KINDS
from paretoken.simulator.models import MODELS
from workers.descriptors import allow_many

TASKS = [
    {"id": "rows", "goal": "Count the rows.", "difficulty": "medium", "reference": "There are 336 rows."},
    {
        "id": "profile",
        "goal": "Profile the file.",
        "difficulty": "hard",
        "reference": {"rows": 336, "columns": 12},
    },
]
ROWS = {"model": "sim-medium", "messages": [{"role": "user", "content": "Count the rows."}]}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("simulator") / "tasks.jsonl"
    path.write_text("\n".join(json.dumps(task) for task in TASKS))
    return path


@pytest.fixture(scope="module")
def shared(tasks: Path) -> Iterator[SimulatedGateway]:
    with launch(tasks=tasks, seed=1) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared: SimulatedGateway) -> SimulatedGateway:
    """One gateway for all tests, without the record and faults of earlier ones."""
    shared.set_faults([])
    shared.clear_record()
    return shared


@pytest.fixture
async def client(gateway: SimulatedGateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with sdk(gateway) as client:
        yield client


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def sdk(gateway: SimulatedGateway, key: str = "any") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=gateway.base_url, api_key=key, max_retries=0)


async def contents(gateway: SimulatedGateway, count: int, **fields: Any) -> list[str | None]:
    async with sdk(gateway) as client:
        answers = [await client.chat.completions.create(**{**ROWS, **fields}) for _ in range(count)]
    return [answer.choices[0].message.content for answer in answers]


class TestAnswers:
    async def test_a_completion_and_its_row(
        self, gateway: SimulatedGateway, client: openai.AsyncOpenAI
    ) -> None:
        raw = await client.chat.completions.with_raw_response.create(
            **ROWS, extra_headers={"X-Client-Request-Id": "call-17"}
        )
        answer = raw.parse()
        assert raw.headers["x-simulated"] == "true"
        assert answer.system_fingerprint == "simulated"
        assert answer.choices[0].finish_reason == "stop"
        # "Count the rows." has 15 characters: 4 tokens, and 4 for the message.
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == 8
        (row,) = gateway.record()
        expected = {
            "response_id": answer.id,
            "client_request_id": "call-17",
            "model": "sim-medium",
            "input_tokens": answer.usage.prompt_tokens,
            "output_tokens": answer.usage.completion_tokens,
            "total_tokens": answer.usage.total_tokens,
            "status": 200,
            "fault": None,
            "served": True,
            "task_id": "rows",
            "right": answer.choices[0].message.content == "There are 336 rows.",
        }
        assert expected.items() <= row.items()
        assert row["finished"]["monotonic"] >= row["started"]["monotonic"]

    async def test_the_seed_decides_whatever_the_order(self, tasks: Path) -> None:
        with launch(tasks=tasks, seed=5) as one, launch(tasks=tasks, seed=5) as two:
            first = await contents(one, 6)
            await contents(two, 3, model="sim-large")
            assert await contents(two, 6) == first
            assert len(set(first)) > 1
            # A request's own seed gives the same answer each time.
            assert len(set(await contents(one, 4, seed=11))) == 1
        with launch(tasks=tasks, seed=6) as other:
            assert await contents(other, 6) != first

    async def test_lost_and_refused_requests_do_not_shift_the_answers(self, tasks: Path) -> None:
        with launch(tasks=tasks, seed=5) as plain, launch(tasks=tasks, seed=5) as faulty:
            faulty.set_faults([{"kind": "server_error", "count": 1}])
            with pytest.raises(openai.InternalServerError):
                await contents(faulty, 1)
            assert await contents(faulty, 5) == await contents(plain, 5)

    async def test_a_stream_gives_the_same_answer_and_usage(self, tasks: Path) -> None:
        with launch(tasks=tasks, seed=5) as plain, launch(tasks=tasks, seed=5) as streamed:
            async with sdk(plain) as client:
                whole = await client.chat.completions.create(**ROWS)
            async with sdk(streamed) as client:
                stream = await client.chat.completions.create(
                    **ROWS, stream=True, stream_options={"include_usage": True}
                )
                chunks = [chunk async for chunk in stream]
            (row,) = streamed.record()
        *pieces, last = chunks
        assert (
            "".join(chunk.choices[0].delta.content or "" for chunk in pieces)
            == whole.choices[0].message.content
        )
        assert [chunk.choices[0].finish_reason for chunk in pieces[-2:]] == [None, "stop"]
        assert (last.choices, last.usage) == ([], whole.usage)
        assert all(chunk.usage is None for chunk in pieces)
        assert (row["response_id"], row["total_tokens"]) == (last.id, whole.usage.total_tokens)

    async def test_a_stream_tells_usage_only_when_asked(self, client: openai.AsyncOpenAI) -> None:
        stream = await client.chat.completions.create(**ROWS, stream=True)
        assert [chunk.usage async for chunk in stream if chunk.usage or not chunk.choices] == []

    async def test_max_tokens_cuts(self, client: openai.AsyncOpenAI) -> None:
        answer = await client.chat.completions.create(**ROWS, max_tokens=2)
        assert answer.choices[0].finish_reason == "length"
        assert len(answer.choices[0].message.content) == 8
        assert answer.usage.completion_tokens == 2

    async def test_the_reasoning_model_reports_its_reasoning(self, client: openai.AsyncOpenAI) -> None:
        answer = await client.chat.completions.create(**{**ROWS, "model": "sim-reasoning"})
        assert 0 < answer.usage.completion_tokens_details.reasoning_tokens < answer.usage.completion_tokens

    async def test_models(self, client: openai.AsyncOpenAI) -> None:
        models = [model async for model in client.models.list()]
        assert set(MODELS) == {model.id for model in models}
        assert {model.owned_by for model in models} == {"paretoken-simulator"}


class TestErrors:
    async def test_an_unknown_model(self, gateway: SimulatedGateway, client: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.NotFoundError) as error:
            await client.chat.completions.create(**{**ROWS, "model": "gpt-9"})
        assert error.value.code == "model_not_found"
        assert [(row["status"], row["served"], row["total_tokens"]) for row in gateway.record()] == [
            (404, False, None)
        ]

    async def test_a_required_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SIMULATOR_TEST_KEY", "right-key")
        with launch(api_key_env="SIMULATOR_TEST_KEY") as gateway:
            async with sdk(gateway, "wrong-key") as client:
                with pytest.raises(openai.AuthenticationError) as error:
                    await client.chat.completions.create(**ROWS)
                assert error.value.code == "invalid_api_key"
                with pytest.raises(openai.AuthenticationError):
                    await client.models.list()
            async with sdk(gateway, "right-key") as client:
                assert (await client.chat.completions.create(**ROWS)).choices
            assert "-key" not in json.dumps(gateway.record())

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            (b"{", None),
            (b'{"model": "sim-small"}', "messages"),
            (b'{"model": "sim-small", "messages": []}', "messages"),
            (
                b'{"model": "sim-small", "messages": [{"role": "user", "content": "x"}], "max_tokens": 0}',
                "max_tokens",
            ),
        ],
    )
    async def test_a_request_that_makes_no_sense(
        self, gateway: SimulatedGateway, session: aiohttp.ClientSession, body: bytes, param: str | None
    ) -> None:
        async with session.post(f"{gateway.base_url}/chat/completions", data=body) as response:
            error = (await response.json())["error"]
        assert (response.status, error["type"], error["param"]) == (400, "invalid_request_error", param)

    @pytest.mark.parametrize("path", ["", "/v1", "/api/v1"])
    async def test_any_base_path_and_only_that(self, session: aiohttp.ClientSession, path: str) -> None:
        with launch(base_path=path) as gateway:
            assert urlsplit(gateway.base_url).path.rstrip("/") == path
            async with sdk(gateway) as client:
                assert (await client.chat.completions.create(**ROWS)).choices
            async with session.post(
                f"{gateway.base_url.rstrip('/')}/v2/chat/completions", json=ROWS
            ) as response:
                assert response.status == 404
                assert (await response.json())["error"]["code"] == "unknown_url"


class TestLimits:
    async def test_requests_per_minute_for_each_model_and_key(self, tasks: Path) -> None:
        with launch(tasks=tasks, rpm=2) as gateway:
            async with sdk(gateway) as client:
                raw = [await client.chat.completions.with_raw_response.create(**ROWS) for _ in range(2)]
                assert [one.headers["x-ratelimit-remaining-requests"] for one in raw] == ["1", "0"]
                with pytest.raises(openai.RateLimitError) as error:
                    await client.chat.completions.create(**ROWS)
                assert error.value.code == "rate_limit_exceeded"
                headers = error.value.response.headers
                assert 1 <= int(headers["retry-after"]) <= 60
                assert (headers["x-ratelimit-limit-requests"], headers["x-simulated"]) == ("2", "true")
            await contents(gateway, 2, model="sim-small")
            assert gateway.stats()["rejected_429"] == 1
            assert gateway.stats()["served"] == 4

    async def test_tokens_per_minute(self, tasks: Path) -> None:
        # Each request takes 8 tokens in and 2 out, so that 25 tokens are enough for two.
        with launch(tasks=tasks, tpm=25) as gateway:
            await contents(gateway, 2, max_tokens=2)
            with pytest.raises(openai.RateLimitError) as error:
                await contents(gateway, 1, max_tokens=2)
        assert error.value.response.headers["x-ratelimit-remaining-tokens"] == "5"


def exchange(
    gateway: SimulatedGateway, *, patience_s: float = 10, until_closed: bool = False, **fields: Any
) -> tuple[int | None, bytes, str]:
    """One request over a kept-alive connection: status, body, and how the connection ended."""
    address = urlsplit(gateway.base_url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=patience_s)
    status, body = None, b""
    try:
        connection.request("POST", f"{address.path}/chat/completions", json.dumps({**ROWS, **fields}))
        response = connection.getresponse()
        status = response.status
        body = response.read()
        ended = "open"
        if until_closed:
            assert connection.sock.recv(1) == b""
            ended = "closed"
    except http.client.RemoteDisconnected:
        ended = "closed"
    except ConnectionResetError:
        ended = "reset"
    except TimeoutError:
        ended = "silent"
    finally:
        connection.close()
    return status, body, ended


class TestFaults:
    @pytest.mark.parametrize("kind", [kind for kind, row in KINDS.items() if row.error])
    async def test_errors_with_a_status(
        self, client: openai.AsyncOpenAI, gateway: SimulatedGateway, kind: str
    ) -> None:
        gateway.set_faults([{"kind": kind, "count": 1}])
        with pytest.raises(openai.APIStatusError) as error:
            await client.chat.completions.create(**ROWS)
        expected = KINDS[kind].error
        assert expected is not None
        assert (error.value.status_code, error.value.code) == (expected.status, expected.code)
        (row,) = gateway.record()
        assert (row["status"], row["fault"], row["served"]) == (expected.status, kind, False)
        assert (await client.chat.completions.create(**ROWS)).choices

    @pytest.mark.parametrize(
        ("fault", "status", "headers"),
        [
            ({"kind": "server_error", "status": 529}, 529, {}),
            ({"kind": "rate_limited", "headers": {"Retry-After": "90"}}, 429, {"retry-after": "90"}),
            ({"kind": "rate_limited", "headers": {"retry-after-ms": "250"}}, 429, {"retry-after-ms": "250"}),
            (
                {"kind": "rate_limited", "headers": {"x-ratelimit-reset-requests": "6m0s"}},
                429,
                {"x-ratelimit-reset-requests": "6m0s"},
            ),
            (
                {"kind": "rate_limited", "headers": {"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"}},
                429,
                {"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"},
            ),
        ],
    )
    async def test_a_chosen_status_and_headers(
        self,
        gateway: SimulatedGateway,
        client: openai.AsyncOpenAI,
        fault: dict[str, Any],
        status: int,
        headers: dict[str, str],
    ) -> None:
        gateway.set_faults([fault])
        with pytest.raises(openai.APIStatusError) as error:
            await client.chat.completions.create(**ROWS)
        assert error.value.status_code == status
        assert headers.items() <= dict(error.value.response.headers).items()

    @pytest.mark.parametrize(
        ("body", "sent"), [({"detail": "no"}, b'{"detail":"no"}'), ("Bad luck", b"Bad luck")]
    )
    def test_a_chosen_body(self, gateway: SimulatedGateway, body: Any, sent: bytes) -> None:
        gateway.set_faults([{"kind": "server_error", "body": body}])
        assert exchange(gateway) == (500, sent, "open")

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(
        ("kind", "status", "ended", "how"),
        [
            ("timeout", None, "silent", {"patience_s": 0.3}),
            ("timeout_after_serving", None, "silent", {"patience_s": 0.3}),
            ("reset", None, "reset", {}),
            ("reset_after_serving", None, "reset", {}),
            ("reset_mid_body", 200, "reset", {}),
            ("close", None, "closed", {}),
            ("close_after_reply", 200, "closed", {"until_closed": True}),
        ],
    )
    def test_connections(
        self,
        gateway: SimulatedGateway,
        kind: str,
        status: int | None,
        ended: str,
        how: dict[str, Any],
        stream: bool,
    ) -> None:
        gateway.set_faults([{"kind": kind, "count": 1}])
        seen_status, _, seen_end = exchange(gateway, stream=stream, **how)
        assert (seen_status, seen_end) == (status, ended)
        (row,) = gateway.record()
        assert (row["fault"], row["served"]) == (kind, KINDS[kind].served)
        assert (row["total_tokens"] is not None) == KINDS[kind].served

    @pytest.mark.parametrize(
        ("kind", "starts"),
        [
            ("html", b"<!DOCTYPE html>"),
            ("plain_string", b"simulated upstream"),
            (
                "error_with_200",
                b'{"error":{"message":"Simulated upstream error.","code":502},"choices":null}',
            ),
        ],
    )
    def test_bodies_that_are_no_completion(self, gateway: SimulatedGateway, kind: str, starts: bytes) -> None:
        gateway.set_faults([{"kind": kind}])
        status, body, _ = exchange(gateway)
        assert (status, body[: len(starts)]) == (200, starts)
        (row,) = gateway.record()
        assert (row["status"], row["served"], row["response_id"]) == (200, False, None)

    @pytest.mark.parametrize("stream", [False, True])
    def test_json_that_breaks_off(self, gateway: SimulatedGateway, stream: bool) -> None:
        gateway.set_faults([{"kind": "malformed_json"}])
        _, body, _ = exchange(gateway, stream=stream)
        text = body.removeprefix(b"data: ")
        assert text.startswith(b'{"id":"chatcmpl-sim-')
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
        assert gateway.stats()["served"] == 1

    @pytest.mark.parametrize(
        ("kind", "choices", "usage_told"),
        [
            ("empty_choices", 0, True),
            ("missing_usage", 1, False),
            ("null_usage", 1, False),
            ("empty_content", 1, True),
        ],
    )
    @pytest.mark.parametrize("stream", [False, True])
    async def test_completions_that_lack_something(
        self,
        gateway: SimulatedGateway,
        client: openai.AsyncOpenAI,
        kind: str,
        choices: int,
        usage_told: bool,
        stream: bool,
    ) -> None:
        gateway.set_faults([{"kind": kind}])
        if stream:
            chunks = [
                chunk
                async for chunk in await client.chat.completions.create(
                    **ROWS, stream=True, stream_options={"include_usage": True}
                )
            ]
            usage = chunks[-1].usage
            assert max(len(chunk.choices) for chunk in chunks) == choices
            content = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        else:
            answer = await client.chat.completions.create(**ROWS)
            usage = answer.usage
            assert len(answer.choices) == choices
            content = "".join(choice.message.content for choice in answer.choices)
        (row,) = gateway.record()
        assert row["total_tokens"] > 8
        assert (usage.total_tokens if usage else None) == (row["total_tokens"] if usage_told else None)
        assert (content == "") == (kind in ("empty_choices", "empty_content"))
        if kind == "empty_content":
            assert usage.completion_tokens_details.reasoning_tokens == usage.completion_tokens > 0

    async def test_a_truncated_stream_ends_without_a_word(
        self, gateway: SimulatedGateway, client: openai.AsyncOpenAI
    ) -> None:
        gateway.set_faults([{"kind": "truncated_stream"}])
        stream = await client.chat.completions.create(
            **ROWS, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert len(chunks) > 1
        assert [chunk for chunk in chunks if chunk.usage or chunk.choices[0].finish_reason] == []
        assert gateway.stats()["served"] == 1

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_slow_body_is_whole(self, gateway: SimulatedGateway, stream: bool) -> None:
        plain = exchange(gateway, seed=3, stream=stream)[1]
        gateway.set_faults([{"kind": "slow_body", "duration_s": 0.05}])
        slow = exchange(gateway, seed=3, stream=stream)[1]
        ids = [row["response_id"].encode() for row in gateway.record()]
        assert without(plain, ids[0]) == without(slow, ids[1])

    async def test_comments_before_a_stream(
        self, gateway: SimulatedGateway, client: openai.AsyncOpenAI
    ) -> None:
        gateway.set_faults([{"kind": "keep_alive_comments", "duration_s": 0.05}])
        assert exchange(gateway, stream=True)[1].startswith(b": keep-alive\n\n")
        chunks = [chunk async for chunk in await client.chat.completions.create(**ROWS, stream=True)]
        assert chunks[-1].choices[0].finish_reason == "stop"

    async def test_faults_that_make_no_sense_change_nothing(
        self, gateway: SimulatedGateway, session: aiohttp.ClientSession
    ) -> None:
        gateway.set_faults([{"kind": "html", "count": 2}])
        with pytest.raises(InputError, match="did you mean 'html'"):
            gateway.set_faults([{"kind": "htmll"}])
        exchange(gateway)
        async with session.get(gateway.base_url.replace("/api/v1", "/_simulator/faults")) as response:
            assert await response.json() == [{"kind": "html", "count": 2, "left": 1}]


def without(body: bytes, response_id: bytes) -> list[bytes]:
    """The body's lines without what differs from one time to the next."""
    parts = body.replace(response_id, b"").split(b'"created":')
    return [parts[0], *(part.lstrip(b"0123456789") for part in parts[1:])]


class TestRecord:
    async def test_the_record_agrees_with_what_clients_saw(self, tasks: Path, tmp_path: Path) -> None:
        path = tmp_path / "served.jsonl"
        with launch(tasks=tasks, record=path, latency_ms=2, latency_sigma=1) as gateway:
            async with sdk(gateway) as client:
                answers = await asyncio.gather(
                    *(client.chat.completions.create(**ROWS, temperature=one / 40) for one in range(40))
                )
            rows = gateway.record()
            assert [json.loads(line) for line in path.read_text().splitlines()] == rows
            seen = {answer.id: answer.usage.total_tokens for answer in answers}
            assert {row["response_id"]: row["total_tokens"] for row in rows} == seen
            stats = gateway.stats()
            assert (stats["requests"], stats["served"], stats["in_flight"]) == (40, 40, 0)
            assert stats["total_tokens"] == sum(seen.values())
            assert 1 < stats["peak_in_flight"] <= 40
            gateway.clear_record()
            assert (gateway.record(), gateway.stats()["requests"], path.read_text()) == ([], 0, "")

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_client_that_leaves_is_billed(
        self, tasks: Path, session: aiohttp.ClientSession, stream: bool
    ) -> None:
        with launch(tasks=tasks, latency_ms=3_600_000) as gateway:
            hurry = aiohttp.ClientTimeout(total=0.3)
            with pytest.raises(TimeoutError):
                await session.post(
                    f"{gateway.base_url}/chat/completions", json={**ROWS, "stream": stream}, timeout=hurry
                )
            async with asyncio.timeout(10):
                while not (rows := await asyncio.to_thread(gateway.record)):
                    pass
            assert [row["served"] for row in rows] == [True]
            assert gateway.stats()["in_flight"] == 0

    async def test_a_thousand_connections_at_once(self, tasks: Path) -> None:
        allow_many()
        # Fewer where this user may have no more: other tests of the process hold some, too.
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        connections = 1000 if allowed == resource.RLIM_INFINITY else min(1000, allowed - 300)
        connector = aiohttp.TCPConnector(limit=0)
        with launch(tasks=tasks, latency_ms=1500) as gateway:
            async with aiohttp.ClientSession(connector=connector) as session:

                async def post() -> int:
                    async with session.post(f"{gateway.base_url}/chat/completions", json=ROWS) as response:
                        await response.read()
                        return response.status

                statuses = await asyncio.gather(*(post() for _ in range(connections)))
            assert statuses == [200] * connections
            assert len({row["response_id"] for row in gateway.record()}) == connections


class TestProcess:
    def test_a_port_in_use(self, gateway: SimulatedGateway) -> None:
        port = urlsplit(gateway.base_url).port
        command = [sys.executable, "-m", "paretoken.simulator", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1
        assert f"port {port}" in ended.stderr
        assert ended.stdout == ""

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"tasks": Path("no-such-file.jsonl")}, "no-such-file.jsonl"),
            ({"record": Path("no-such-folder/served.jsonl")}, "no-such-folder"),
            ({"faults": [{"kind": "htmll"}]}, "did you mean 'html'"),
            ({"api_key_env": "SIMULATOR_NO_SUCH_KEY"}, "SIMULATOR_NO_SUCH_KEY"),
        ],
    )
    def test_options_that_cannot_be_used(self, options: dict[str, Any], told: str) -> None:
        with pytest.raises(ParetokenError) as error:
            launch(**options)
        assert told in str(error.value)
        assert isinstance(error.value, InputError)
        assert "Traceback" not in str(error.value)

    def test_help_has_an_example(self) -> None:
        command = [sys.executable, "-m", "paretoken.simulator", "--help"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        assert "Example: paretoken gateway simulate --tasks tasks.jsonl" in shown

    def test_it_stops_twice_and_from_a_signal(self, tasks: Path) -> None:
        gateway = launch(tasks=tasks)
        os.kill(gateway.pid, signal.SIGTERM)
        assert gateway.process.wait(timeout=10) == 0
        gateway.stop()
        gateway.stop()

    def test_it_ends_when_its_parent_is_killed(self) -> None:
        script = (
            "import sys, paretoken.simulator as s; print(s.launch().base_url, flush=True); sys.stdin.read()"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with parent:
            address = urlsplit(parent.stdout.readline())
            with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
                connection.sendall(b"GET /_simulator/stats HTTP/1.1\r\nHost: simulator\r\n\r\n")
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
                parent.kill()
                # Only the end of the process closes this idle connection so soon.
                while connection.recv(65536):
                    pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address.hostname, address.port), timeout=30)
