"""Waiting for Postgres: whatever passes by itself is waited for, and nothing else."""

import psycopg
import pytest
from psycopg_pool import PoolClosed

from db.connection import AWAY
from workers import waiting
from workers.waiting import patiently


@pytest.mark.parametrize("away", [*AWAY, psycopg.errors.AdminShutdown, psycopg.errors.DiskFull])
async def test_a_move_is_made_again_while_postgres_is_away(
    away: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_RETRY_S", 0)
    tries = 0

    async def move() -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise away("gone")
        return tries

    assert await patiently(move) == 3


@pytest.mark.parametrize(
    "lasting", [PoolClosed, psycopg.errors.ProgramLimitExceeded, psycopg.DataError, RuntimeError]
)
async def test_what_no_time_mends_is_raised_at_once(lasting: type[Exception]) -> None:
    async def move() -> None:
        raise lasting("no")

    with pytest.raises(lasting):
        await patiently(move)
