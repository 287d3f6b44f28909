"""Failures below HTTP, on real sockets: never sent, perhaps sent, or answered."""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from analysis.usage import UNKNOWN_USAGE
from tests.integration.gateway.scripted_server import Exchange, Server, ask, completion
from workers.gateway import Outcome
from workers.gateway.client import Gateway

Serve = Callable[..., Awaitable[Server]]
Connect = Callable[..., Gateway]


def kind_of(outcome: Outcome) -> tuple[str, str | None, str]:
    return outcome.status, outcome.error, outcome.disposition


NEVER_SENT = ("error", "connection", "retry")
LOST = ("unknown", "unknown_outcome", "retry")


async def silence(_exchange: Exchange) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: further ones hang, as behind a firewall that drops packets."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(address)
        yield address[1]
        for sock in waiting:
            sock.close()


@pytest.fixture
def self_signed(tmp_path: Path) -> ssl.SSLContext:
    if shutil.which("openssl") is None and "CI" not in os.environ:
        pytest.skip("needs the openssl program")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context


async def test_refused(gateway: Connect, unused_port: int) -> None:
    outcome = await gateway(f"http://127.0.0.1:{unused_port}").complete(ask())
    assert kind_of(outcome) == NEVER_SENT
    assert "no connection to 127.0.0.1" in (outcome.message or "")
    assert (outcome.http_status, outcome.first_byte_ms, outcome.usage) == (None, None, UNKNOWN_USAGE)


@pytest.mark.parametrize("host", ["nothing.invalid", "a" * 70 + ".invalid"])
async def test_name_that_does_not_resolve(gateway: Connect, host: str) -> None:
    outcome = await gateway(f"http://{host}").complete(ask())
    assert kind_of(outcome) == NEVER_SENT


async def test_certificate_nobody_signed(serve: Serve, gateway: Connect, self_signed: ssl.SSLContext) -> None:
    server = await serve(silence, ssl=self_signed)
    outcome = await gateway(f"https://127.0.0.1:{server.port}").complete(ask())
    assert kind_of(outcome) == NEVER_SENT
    assert "certificate of 127.0.0.1 is not valid" in (outcome.message or "")
    assert server.received == []


async def test_certificate_that_the_machine_trusts(
    serve: Serve,
    gateway: Connect,
    self_signed: ssl.SSLContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    server = await serve(lambda exchange: exchange.answer(completion()), ssl=self_signed)
    assert (await gateway(f"https://127.0.0.1:{server.port}").complete(ask())).status == "ok"


async def test_proxy_that_will_not_connect(
    serve: Serve, gateway: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda exchange: exchange.answer("no", status=502))
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.port}")
    outcome = await gateway("https://gateway.invalid/api").complete(ask())
    assert kind_of(outcome) == NEVER_SENT
    assert server.received[0].line == "CONNECT gateway.invalid:443 HTTP/1.1"
    assert "authorization" not in server.received[0].headers


async def test_tls_with_a_server_that_speaks_none(serve: Serve, gateway: Connect) -> None:
    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        outcome = await gateway(f"https://127.0.0.1:{port}").complete(ask())
    assert kind_of(outcome) == NEVER_SENT


@pytest.mark.parametrize(
    "limits",
    [{"connect_timeout_s": 0.2}, {"connect_timeout_s": 30, "timeout_s": 0.2}],
    ids=["its own limit", "the call's deadline"],
)
async def test_connecting_takes_too_long(gateway: Connect, full_port: int, limits: dict[str, float]) -> None:
    outcome = await gateway(f"http://127.0.0.1:{full_port}", **limits).complete(ask())
    assert kind_of(outcome) == NEVER_SENT


async def test_tls_handshake_takes_too_long(serve: Serve, gateway: Connect) -> None:
    server = await serve(silence)
    client = gateway(f"https://127.0.0.1:{server.port}", connect_timeout_s=0.2)
    assert kind_of(await client.complete(ask())) == NEVER_SENT


async def test_no_free_connection_in_time(serve: Serve, gateway: Connect) -> None:
    server = await serve(silence)
    client = gateway(server.base_url, max_connections=1, connect_timeout_s=0.2, timeout_s=1)
    first, second = await asyncio.gather(client.complete(ask()), client.complete(ask()))
    assert kind_of(first) == ("unknown", "timeout", "retry")
    assert kind_of(second) == NEVER_SENT


async def test_silence_until_the_deadline(serve: Serve, gateway: Connect) -> None:
    server = await serve(silence)
    outcome = await gateway(server.base_url, timeout_s=0.2).complete(ask())
    assert kind_of(outcome) == ("unknown", "timeout", "retry")
    assert outcome.http_status is None and len(server.received) == 1


@pytest.mark.parametrize("close", [Exchange.reset, Exchange.close], ids=["RST", "FIN"])
@pytest.mark.parametrize(
    ("sent", "http_status"),
    [
        (b"", None),
        (b"HTTP/1.1 200 OK\r\ncontent-le", None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{", 200),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{    \r\n", 200),
    ],
    ids=["before the answer", "in the headers", "in the body", "between chunks"],
)
async def test_connection_lost_after_sending(
    serve: Serve,
    gateway: Connect,
    sent: bytes,
    http_status: int | None,
    close: Callable[[Exchange], None],
) -> None:
    async def behave(exchange: Exchange) -> None:
        if sent:
            await exchange.send(sent)
        close(exchange)

    server = await serve(behave)
    outcome = await gateway(server.base_url).complete(ask())
    assert kind_of(outcome) == LOST
    # After RST the system may throw away what had arrived, so that even the status can be gone.
    assert outcome.http_status in {http_status, None}
    assert (outcome.content, outcome.usage) == (None, UNKNOWN_USAGE)
    assert len(server.received) == 1


async def test_refusal_whose_body_is_cut_is_still_a_refusal(serve: Serve, gateway: Connect) -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 900\r\n\r\n{")
        exchange.close()

    server = await serve(behave)
    outcome = await gateway(server.base_url).complete(ask())
    assert kind_of(outcome) == ("error", "server_error", "retry")
    assert (outcome.http_status, outcome.retry_after_s) == (503, 7)


async def test_kept_connection_closed_on_the_second_request(serve: Serve, gateway: Connect) -> None:
    async def behave(exchange: Exchange) -> None:
        if len(server.received) == 1:
            await exchange.answer(completion())
        else:
            exchange.close()

    server = await serve(behave)
    client = gateway(server.base_url)
    assert (await client.complete(ask())).status == "ok"
    assert kind_of(await client.complete(ask())) == LOST
    assert (len(server.received), server.connections) == (2, 1)


async def test_kept_connection_closed_and_noticed(serve: Serve, gateway: Connect) -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.answer(completion())
        exchange.writer.write_eof()

    server = await serve(behave)
    client = gateway(server.base_url)
    assert (await client.complete(ask())).status == "ok"
    await server.left.wait()
    assert (await client.complete(ask())).status == "ok"
    assert server.connections == 2


async def test_kept_connection_closed_and_not_yet_noticed(gateway: Connect) -> None:
    """The close lies unread in the kernel while the second request goes out: nobody can tell what was served."""
    answered, closed = threading.Event(), threading.Event()
    body = b'{"choices": [{"message": {"content": "4"}}]}'

    def serve_once(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
            answered.wait(10)
        closed.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve_once, args=[listening])
        thread.start()
        client = gateway(f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert (await client.complete(ask())).status == "ok"
        answered.set()
        closed.wait(10)  # blocks the loop, so that it cannot see the close
        outcome = await client.complete(ask())
        thread.join(10)
    assert kind_of(outcome) == LOST


async def test_cancelled_while_waiting_for_the_answer(serve: Serve, gateway: Connect) -> None:
    server = await serve(silence)
    settled = []

    async def call_and_settle() -> None:
        outcome = await client.complete(ask())
        await asyncio.sleep(0)  # settling awaits the database
        settled.append(outcome)

    client = gateway(server.base_url)
    task = asyncio.create_task(call_and_settle())
    await server.arrived.wait()
    task.cancel()
    await task
    assert [kind_of(outcome) for outcome in settled] == [("unknown", "cancelled", "retry")]
    assert task.cancelling() == 0 and not task.cancelled()


async def test_cancelled_while_connecting(gateway: Connect) -> None:
    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        connected.set()

    connected = asyncio.Event()
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        client = gateway(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        task = asyncio.create_task(client.complete(ask()))
        await connected.wait()  # TCP stands, the TLS handshake is never answered
        task.cancel()
        outcome = await task
        for writer in writers:
            writer.close()
    assert kind_of(outcome) == ("error", "cancelled", "retry")
    assert "nothing had been sent" in (outcome.message or "")


async def test_cancelled_in_the_middle_of_the_answer(serve: Serve, gateway: Connect) -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{")
        await silence(exchange)

    server = await serve(behave)
    task = asyncio.create_task(gateway(server.base_url).complete(ask()))
    await server.arrived.wait()
    task.cancel()
    assert kind_of(await task) == ("unknown", "cancelled", "retry")
