"""How fast the limiter decides, and how well several processes use a gateway's limits through it.

    python benchmarks/limiter.py                 microseconds for each acquire and settle
    python benchmarks/limiter.py --minutes 6     and a run against a gateway that enforces its limits (a table)
    python benchmarks/limiter.py --minutes 6 --unknown-limits     the workers are not told the limits

The gateway is a small server in its own process: 600 requests and 200,000 tokens in any 60 s, counted when a request
arrives, else 429 with the time until there is room. Every worker process keeps as many calls waiting as it can,
so that demand is far above the limit. Starts its own Valkey; nothing leaves this machine.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import socket
import subprocess
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import RedisError

from paretoken.servers.binaries import find_valkey
from workers.limiter import Limiter
from workers.limits import Limits

REQUESTS, TOKENS = 600, 200_000
LANE = "127.0.0.1:gateway:key:model"


@dataclass
class Window:
    """What arrived in the last 60 s."""

    served: deque[tuple[float, int]] = field(default_factory=deque)
    tokens: int = 0

    def admit(self, now: float, tokens: int) -> float:
        """0 when admitted, else the seconds until there is room."""
        while self.served and self.served[0][0] <= now - 60:
            self.tokens -= self.served.popleft()[1]
        if len(self.served) >= REQUESTS or self.tokens + tokens > TOKENS:
            return self.served[0][0] + 60 - now
        self.served.append((now, tokens))
        self.tokens += tokens
        return 0.0


async def gateway(port: int, options: argparse.Namespace) -> None:
    """One line in (anything), one line of JSON out; `report` gets the minutes so far."""
    window, start = Window(), 0.0
    minutes: list[Counter[str]] = [Counter() for _ in range(99)]
    rng = random.Random(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal start
        while line := await reader.readline():
            now = time.monotonic()
            if line == b"report\n":
                answer: object = minutes
            else:
                start = start or now
                tokens = max(1, round(rng.lognormvariate(0, 0.5) * options.tokens / 1.133))  # e^(0.5^2 / 2)
                wait_s = window.admit(now, tokens)
                minute = minutes[int((now - start) // 60)]
                minute["throttled" if wait_s else "served"] += 1
                minute["tokens"] += 0 if wait_s else tokens
                minute["most"] = max(minute["most"], len(window.served))
                minute["most_tokens"] = max(minute["most_tokens"], window.tokens)
                await asyncio.sleep(0.02 if wait_s else rng.uniform(0.5, 1.5) * options.latency)
                answer = {"wait_s": wait_s, "tokens": tokens}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()

    async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
        await server.serve_forever()


async def call(limiter: Limiter, port: int, name: str, options: argparse.Namespace, limits: Limits) -> None:
    """Calls one after another, as a worker makes them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    while True:
        number += 1
        ticket = f"{name}:{number}"
        decision = await limiter.turn(LANE, ticket, options.estimate, limits, lease_s=120)
        if not decision.granted:
            await asyncio.sleep(decision.wait_s)
            continue
        writer.write(b"call\n")
        answer = json.loads(await reader.readline())
        if answer["wait_s"]:
            await limiter.settle(LANE, ticket, tokens=0, result="throttled", cool_down_s=answer["wait_s"])
        else:
            await limiter.settle(LANE, ticket, tokens=answer["tokens"], result="ok")


async def work(ports: tuple[int, int], process: int, options: argparse.Namespace) -> None:
    told = None if options.unknown_limits else REQUESTS, None if options.unknown_limits else TOKENS
    limits = Limits(requests_per_minute=told[0], tokens_per_minute=told[1])
    limiter = Limiter(Redis(host="127.0.0.1", port=ports[0]))
    names = [f"{process}.{n}" for n in range(options.waiters)]
    await asyncio.gather(*(call(limiter, ports[1], name, options, limits) for name in names))


def gateway_process(port: int, options: argparse.Namespace) -> None:
    asyncio.run(gateway(port, options))


def worker_process(ports: tuple[int, int], process: int, options: argparse.Namespace) -> None:
    asyncio.run(work(ports, process, options))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def valkey() -> Iterator[int]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = f"--port {port} --bind 127.0.0.1 --dir {folder} --appendonly no".split()
        command = [str(find_valkey().path), *settings, "--save", ""]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for(port)
            yield port
        finally:
            server.terminate()
            server.wait()


def wait_for(port: int) -> None:
    with BlockingRedis(host="127.0.0.1", port=port) as client:
        while True:
            try:
                client.ping()
            except RedisError:
                time.sleep(0.05)
            else:
                return


async def decision_times(port: int, calls: int) -> None:
    """One caller, then 50 at a time on one connection pool."""
    async with Redis(host="127.0.0.1", port=port) as redis:
        limiter, limits = Limiter(redis), Limits(requests_per_minute=10**8, tokens_per_minute=10**11)

        async def pair(number: int) -> None:
            await limiter.acquire("speed", str(number), 1000, limits, 60)
            await limiter.settle("speed", str(number), tokens=200, result="ok")

        await pair(-1)
        start = time.perf_counter()
        for number in range(calls):
            await pair(number)
        print(f"acquire + settle, one after another: {(time.perf_counter() - start) / calls * 1e6:.0f} us")
        stats = await redis.info("commandstats")
        print(f"of it in the server: {2 * stats['cmdstat_evalsha']['usec_per_call']:.0f} us")
        start = time.perf_counter()
        for first in range(0, calls, 50):
            await asyncio.gather(*(pair(number) for number in range(first, first + 50)))
        print(f"acquire + settle, 50 at a time: {(time.perf_counter() - start) / calls * 1e6:.0f} us")


def wait_until_listening(port: int) -> None:
    while True:
        try:
            ask_report(port)
        except ConnectionRefusedError:
            time.sleep(0.1)
        else:
            return


def ask_report(port: int) -> list[dict[str, int]]:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"report\n")
        report: list[dict[str, int]] = json.loads(connection.makefile().readline())
        return report


def load(port: int, options: argparse.Namespace) -> None:
    context = multiprocessing.get_context("spawn")
    ports = port, free_port()
    with BlockingRedis(host="127.0.0.1", port=port) as client:
        client.flushall()
        client.config_resetstat()
        processes = [context.Process(target=gateway_process, args=(ports[1], options), daemon=True)]
        processes[0].start()
        wait_until_listening(ports[1])
        processes += [
            context.Process(target=worker_process, args=(ports, n, options), daemon=True)
            for n in range(options.processes)
        ]
        for process in processes[1:]:
            process.start()
        while not (report := ask_report(ports[1]))[
            options.minutes
        ]:  # the minute after the last one has begun
            time.sleep(1)
        for process in processes:
            process.terminate()
            process.join()
        commands = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    print_table(report[: options.minutes], commands, sum(m.get("served", 0) for m in report))


def print_table(minutes: list[dict[str, int]], commands: int, served: int) -> None:
    print("minute  requests  of limit   tokens  of limit  429s  share  most in 60 s")
    for number, minute in enumerate(minutes, 1):
        requests, tokens, refused = (minute.get(name, 0) for name in ("served", "tokens", "throttled"))
        print(
            f"{number:6}  {requests:8}  {requests / REQUESTS:8.1%}  {tokens:7}  {tokens / TOKENS:8.1%}  {refused:4}  "
            f"{refused / max(1, requests + refused):5.1%}  {minute.get('most')} / {minute.get('most_tokens')}"
        )
    print(f"limiter commands per call: {commands / max(1, served):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=2000, help="calls timed")
    parser.add_argument("--minutes", type=int, default=0, help="length of the run against the gateway")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--waiters", type=int, default=64, help="calls that each process wants in flight")
    parser.add_argument("--tokens", type=float, default=150, help="mean tokens that a call uses")
    parser.add_argument("--estimate", type=int, default=1200, help="tokens that it is estimated to use")
    parser.add_argument("--latency", type=float, default=2, help="mean seconds that a call takes")
    parser.add_argument("--unknown-limits", action="store_true", help="tell the workers no limits")
    options = parser.parse_args()
    with valkey() as port:
        asyncio.run(decision_times(port, options.calls))
        if options.minutes:
            load(port, options)


if __name__ == "__main__":
    main()
