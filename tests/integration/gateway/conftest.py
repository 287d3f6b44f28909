"""Servers and clients that end with the test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.integration.gateway.scripted_server import KEY, Behaviour, Server
from workers.gateway.client import Gateway


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Start a server with a behaviour (and optionally a TLS context)."""
    started: list[tuple[asyncio.Server, Server]] = []

    async def start(behaviour: Behaviour, **options: Any) -> Server:
        server = Server(behaviour=behaviour)
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, **options)
        server.port = listening.sockets[0].getsockname()[1]
        started.append((listening, server))
        return server

    yield start
    for listening, server in started:
        listening.close()
        for writer in server.writers:
            writer.close()


@pytest.fixture
async def gateway() -> AsyncIterator[Callable[..., Gateway]]:
    """Open gateways that are closed after the test."""
    opened: list[Gateway] = []

    def connect(base_url: str, **options: Any) -> Gateway:
        settings: dict[str, Any] = {"max_connections": 8, "timeout_s": 10, "connect_timeout_s": 5} | options
        client = Gateway(base_url=base_url, api_key=KEY, **settings)
        opened.append(client)
        return client

    yield connect
    for client in opened:
        await client.close()
