"""Group commit by itself: who is answered with what, and how the batches follow each other."""

import asyncio
from contextlib import suppress

import psycopg
import pytest

from analysis.usage import UNKNOWN_USAGE, Usage
from db.settlement import LaterTurn, Settlement
from db.work import CallStart
from workers.committer import APART_S, MOST_ITEMS, Committer, _without_text


def start(job: int) -> CallStart:
    return CallStart(trial=job, job=job, dispatch_no=1, attempt=1, model="m", key_fingerprint="k", lease_no=1)


class Postgres(Committer):
    """Starts every call but those refused or broken, and remembers the batches with their times."""

    def __init__(self) -> None:
        super().__init__(None, worker="w")  # type: ignore[arg-type]
        self.batches: list[tuple[float, list[int]]] = []
        self.refused: set[int] = set()
        self.broken: set[int] = set()
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def _transaction(self, batch):  # type: ignore[no-untyped-def]
        self.batches.append((asyncio.get_running_loop().time(), [waiting.item.job for waiting in batch]))
        self.begun.set()
        await self.gate.wait()
        if self.broken & {waiting.item.job for waiting in batch}:
            raise psycopg.errors.CheckViolation("no")
        starts = [waiting.item for waiting in batch if isinstance(waiting.item, CallStart)]
        return {(item.job, item.dispatch_no) for item in starts if item.job not in self.refused}, []


@pytest.fixture
async def committer():  # type: ignore[no-untyped-def]
    made = Postgres()
    running = asyncio.create_task(made.run())
    yield made
    assert not running.done()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_what_comes_together_is_committed_together(committer: Postgres) -> None:
    committer.refused = {2}
    assert await asyncio.gather(*(committer.start(start(job)) for job in (1, 2, 3))) == [True, False, True]
    assert [jobs for _, jobs in committer.batches] == [[1, 2, 3]]


async def test_one_that_breaks_the_batch_breaks_itself_alone(committer: Postgres) -> None:
    committer.broken = {3}
    found = await asyncio.gather(
        *(committer.start(start(job)) for job in range(1, 6)), return_exceptions=True
    )
    assert [found[n] for n in (0, 1, 3, 4)] == [True] * 4
    assert isinstance(found[2], psycopg.errors.CheckViolation)


@pytest.mark.parametrize("broken", [False, True])
async def test_a_caller_who_is_cancelled_harms_nobody(committer: Postgres, broken: bool) -> None:
    committer.broken = {1} if broken else set()
    committer.gate.clear()
    leaver = asyncio.create_task(committer.start(start(1)))
    await committer.begun.wait()
    leaver.cancel()
    with suppress(asyncio.CancelledError):
        await leaver
    other = asyncio.create_task(committer.start(start(2)))
    committer.gate.set()
    assert await other
    assert leaver.cancelled()


async def test_a_settlement_of_one_who_left_is_written_all_the_same(committer: Postgres) -> None:
    settlement = Settlement(trial=1, job=9, dispatch_no=1, attempt=1, status="ok", next_state="ok")
    leaver = asyncio.create_task(committer.settle(settlement))
    await asyncio.sleep(0)
    leaver.cancel()
    await committer.start(start(2))
    assert sorted(job for _, jobs in committer.batches for job in jobs) == [2, 9]


async def test_batches_are_apart_and_hold_no_more_than_is_allowed(committer: Postgres) -> None:
    await asyncio.gather(*(committer.start(start(job)) for job in range(MOST_ITEMS + 3)))
    (first_at, first), (second_at, second) = committer.batches
    assert (len(first), len(second)) == (MOST_ITEMS, 3)
    # By the loop's own clock; a timer may be early by its resolution.
    assert second_at - first_at >= APART_S - 0.001


def settlement(status: str, usage: Usage, turn: Usage) -> Settlement:
    return Settlement(
        trial=1,
        judging=None,
        job=1,
        dispatch_no=1,
        attempt=1,
        status=status,
        next_state="pending" if status == "unknown" else "ok",
        delay_s=0.0,
        failures=0,
        throttled=False,
        retry_reason=None,
        once=False,
        error=None,
        message=None,
        content="odd",
        tool_calls=None,
        usage=usage,
        raw_usage={"odd": 1},
        cost_usd=0.1,
        http_status=200,
        response_id="odd",
        finish_reason="odd",
        latency_ms=1,
        first_byte_ms=1,
        later_turns=[LaterTurn(usage=turn, raw_usage={"odd": 1}, cost_usd=None, content="odd")],
        files={"odd": b""},
    )


KNOWN, FAR_TOO_MUCH = Usage(input_tokens=5, total_tokens=5), Usage(input_tokens=2**31, total_tokens=2**31)


@pytest.mark.parametrize(("status", "kept"), [("ok", "error"), ("unknown", "unknown")])
def test_an_answer_that_cannot_be_stored_keeps_what_can(status: str, kept: str) -> None:
    refused = psycopg.DataError("no\nmore")
    found = _without_text(settlement(status, KNOWN, FAR_TOO_MUCH), refused)
    assert (found.status, found.error, found.next_state) == (kept, "not_storable", "failed")
    assert (found.usage, found.cost_usd) == (KNOWN, 0.1)
    assert [turn.usage for turn in found.later_turns] == [UNKNOWN_USAGE]
    assert "odd" not in repr(found)
    assert _without_text(settlement(status, FAR_TOO_MUCH, KNOWN), refused).usage == UNKNOWN_USAGE
