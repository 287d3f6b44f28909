"""A parallel processor in the style of the OpenAI cookbook: a token bucket, retries, one line of JSON per answer.

What many people write for a batch of calls. Here for comparison: `benchmarks.alternatives` runs it.
"""

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from openai import APIError, AsyncOpenAI, RateLimitError

from benchmarks.gateway import MODEL
from benchmarks.loops import messages

_TRIES = 5
_PAUSE_S = 15.0
_MAX_TOKENS = 50


@dataclass
class Bucket:
    """Requests and tokens that may be used now; both refill over a minute."""

    requests_per_minute: float
    tokens_per_minute: float
    requests: float = 0.0
    tokens: float = 0.0
    at: float = field(default_factory=time.monotonic)

    async def take(self, tokens: int) -> None:
        """Wait until there is room for a request of so many tokens."""
        while True:
            now = time.monotonic()
            passed, self.at = now - self.at, now
            self.requests = min(
                self.requests_per_minute, self.requests + self.requests_per_minute * passed / 60
            )
            self.tokens = min(self.tokens_per_minute, self.tokens + self.tokens_per_minute * passed / 60)
            if self.requests >= 1 and self.tokens >= tokens:
                self.requests -= 1
                self.tokens -= tokens
                return
            await asyncio.sleep(0.001)


def append(out: Path, entry: object) -> None:
    with out.open("a") as file:
        file.write(json.dumps(entry) + "\n")


async def process(client: AsyncOpenAI, number: int, out: Path) -> None:
    """One call with its retries; its answer goes into the file."""
    for _ in range(_TRIES):
        try:
            answer = await client.chat.completions.create(
                model=MODEL, messages=messages(number), max_tokens=_MAX_TOKENS
            )
        except RateLimitError:
            await asyncio.sleep(_PAUSE_S)
        except APIError as error:
            last = str(error)
        else:
            append(out, [{"number": number}, answer.model_dump()])
            return
    append(out, [{"number": number}, {"errors": last}])


async def run(*, base_url: str, calls: int, concurrency: int, out: Path) -> dict[str, float]:
    """`seconds, cpu_s`."""
    client = AsyncOpenAI(base_url=base_url, api_key="sk-benchmark", max_retries=0)
    bucket = Bucket(requests_per_minute=1e6, tokens_per_minute=1e9)
    slots = asyncio.Semaphore(concurrency)
    began, used = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for number in range(calls):
            await slots.acquire()
            await bucket.take(_MAX_TOKENS + 30)
            task = group.create_task(process(client, number, out))
            task.add_done_callback(lambda _: slots.release())
    await client.close()
    return {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - used}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(run(**vars(options)))))


if __name__ == "__main__":
    main()
