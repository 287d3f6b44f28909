"""Bare loops over the SDK: what a call costs without any ledger. A process of its own, asked line by line.

    echo '{"kind": "plain", "base_url": "http://127.0.0.1:8080/v1", "calls": 100, "concurrency": 10}' |
      python -m benchmarks.loops

Kinds: `plain` (`AsyncOpenAI.chat.completions.create`), `fast` (`AsyncOpenAI.post` over aiohttp, the quickest way
through the SDK), `client` (the workers' own gateway client).
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from benchmarks.gateway import MODEL

KINDS = ("plain", "fast", "client")
_KEY = "sk-benchmark"
_MAX_TOKENS = 50
Call = Callable[[int], Awaitable[object]]


def messages(number: int) -> list[dict[str, str]]:
    """As long as the benchmarks' tasks."""
    goal = f"Task {number}: what is {number} times {number + 7}? Give only the number."
    return [{"role": "user", "content": goal}]


async def plain(base_url: str, concurrency: int, stack: AsyncExitStack) -> Call:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=base_url, api_key=_KEY, max_retries=0)
    stack.push_async_callback(client.close)
    return lambda number: client.chat.completions.create(
        model=MODEL, messages=messages(number), max_tokens=_MAX_TOKENS
    )


async def fast(base_url: str, concurrency: int, stack: AsyncExitStack) -> Call:
    from openai import AsyncOpenAI, DefaultAioHttpClient
    from openai.types.chat import ChatCompletion

    client = AsyncOpenAI(base_url=base_url, api_key=_KEY, max_retries=0, http_client=DefaultAioHttpClient())
    stack.push_async_callback(client.close)
    return lambda number: client.post(
        "/chat/completions",
        body={"model": MODEL, "messages": messages(number), "max_tokens": _MAX_TOKENS},
        cast_to=ChatCompletion,
    )


async def client(base_url: str, concurrency: int, stack: AsyncExitStack) -> Call:
    from workers.gateway import Request
    from workers.gateway.client import Gateway

    gateway = Gateway(base_url=base_url, api_key=_KEY, max_connections=concurrency)
    stack.push_async_callback(gateway.close)

    async def call(number: int) -> None:
        outcome = await gateway.complete(
            Request(model=MODEL, messages=messages(number), max_tokens=_MAX_TOKENS, request_id=f"{number}:1")
        )
        assert outcome.status == "ok", outcome.message

    return call


MAKERS = {"plain": plain, "fast": fast, "client": client}


async def run(*, kind: str, base_url: str, calls: int, concurrency: int) -> dict[str, Any]:
    """`calls, seconds, cpu_s` of one loop."""
    async with AsyncExitStack() as stack:
        call = await MAKERS[kind](base_url, concurrency, stack)
        await call(0)
        numbers = iter(range(1, calls + 1))

        async def repeat() -> None:
            for number in numbers:
                await call(number)

        began, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(repeat() for _ in range(concurrency)))
        return {
            "calls": calls,
            "seconds": time.perf_counter() - began,
            "cpu_s": time.process_time() - used,
        }


Loops = Callable[[Mapping[str, Any]], dict[str, Any]]


@contextmanager
def loops() -> Iterator[Loops]:
    """A process that runs loops: give it the arguments of `run`, get what it gives."""
    command = [sys.executable, "-m", "benchmarks.loops"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(arguments: Mapping[str, Any]) -> dict[str, Any]:
            asked.write(json.dumps(arguments) + "\n")
            asked.flush()
            found: dict[str, Any] = json.loads(answers.readline())
            return found

        yield ask
        asked.close()


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(asyncio.run(run(**json.loads(line)))), flush=True)
