"""The waiters of one process stand in one line: the first asks for all, and nobody is forgotten whoever leaves."""

import asyncio
from collections.abc import Sequence

import pytest

from workers.limits import STOPPED, Asked, Decision, LimiterUnavailable, Limits
from workers.line import Line, Together

GO = Decision(granted=True, wait_s=0, reason="ok")
LATER = Decision(granted=False, wait_s=100, reason="tokens")
SOON = Decision(granted=False, wait_s=5, reason="concurrency")


class Redis:
    """Grants as many calls as there are slots, in their order; the next one is told `refusal`."""

    def __init__(self, slots: int = 0, refusal: Decision = SOON) -> None:
        self.slots, self.refusal = slots, refusal
        self.asked: list[list[str]] = []
        self.given_up: list[str] = []
        self.answering = asyncio.Event()
        self.answering.set()
        self.away = False
        self.line = Line(self.ask, self.give_up, max_wait_s=20)
        self.line.learn(1)

    async def ask(self, limits: Limits, asked: Sequence[Asked]) -> Sequence[Decision]:
        self.asked.append([call.request_id for call in asked])
        await self.answering.wait()
        if self.away:
            raise LimiterUnavailable("away")
        granted = min(self.slots, len(asked))
        self.slots -= granted
        self.line.learn(self.slots)
        return [GO] * granted + [self.refusal] * (granted < len(asked))

    async def give_up(self, request_id: str) -> None:
        self.given_up.append(request_id)

    def free(self, slots: int) -> None:
        self.slots += slots
        self.line.learn(self.slots)

    def enter(self, names: str, limits: Limits = Limits()) -> dict[str, "asyncio.Task[Decision]"]:  # noqa: B008
        return {
            name: asyncio.create_task(
                self.line.enter(Asked(request_id=name, tokens=1, limits=limits, lease_s=60))
            )
            for name in names
        }


async def settled() -> None:
    """Everything that can go on has gone on."""
    for _ in range(50):
        await asyncio.sleep(0)


async def asked_for_three() -> "tuple[Redis, dict[str, asyncio.Task[Decision]]]":
    """a, b and c stand in the line; slots became free, and Redis is being asked for all of them."""
    redis = Redis(slots=0)
    tasks = redis.enter("abc")
    await settled()
    redis.answering.clear()
    redis.free(5)
    await settled()
    return redis, tasks


def answers(tasks: "dict[str, asyncio.Task[Decision]]") -> dict[str, Decision]:
    return {name: task.result() for name, task in tasks.items() if task.done()}


async def test_the_first_asks_for_all_and_those_left_ask_when_something_is_free() -> None:
    redis = Redis(slots=2)
    tasks = redis.enter("abcd")
    await settled()
    assert answers(tasks) == {"a": GO, "b": GO}
    redis.free(1)
    await settled()
    assert answers(tasks).keys() == {"a", "b", "c"}
    redis.free(1)
    await asyncio.gather(*tasks.values())
    assert redis.asked == [["a", "b", "c", "d"], ["c", "d"], ["d"]]
    assert not redis.line


async def test_those_who_come_while_the_first_asks_are_asked_for_in_one_go() -> None:
    redis = Redis(slots=50)
    redis.answering.clear()
    first = redis.enter("a")
    await settled()
    others = redis.enter("bcdefgh")
    await settled()
    redis.answering.set()
    assert await asyncio.gather(*first.values(), *others.values()) == [GO] * 8
    assert redis.asked == [["a"], list("bcdefgh")]


async def test_other_limits_are_asked_for_apart() -> None:
    redis = Redis(slots=50)
    redis.answering.clear()
    mine = redis.enter("abc")
    theirs = redis.enter("de", Limits(concurrency=5))
    await settled()
    redis.answering.set()
    await asyncio.gather(*mine.values(), *theirs.values())
    assert [set(asked) <= set("abc") or set(asked) <= set("de") for asked in redis.asked] == [True] * len(
        redis.asked
    )


async def test_a_long_refusal_ends_the_wait_of_the_one_who_was_refused() -> None:
    redis = Redis(slots=0, refusal=LATER)
    tasks = redis.enter("a")
    assert await tasks["a"] == LATER


async def test_whoever_waits_behind_a_refusal_is_told_what_is_left_of_its_wait() -> None:
    """Refused for 100 s; who gives up waiting 20 s later is to come back in 80."""
    with_time = asyncio.get_running_loop()
    redis = Redis(slots=0, refusal=LATER)
    redis.line = Line(redis.ask, redis.give_up, max_wait_s=0.2)
    redis.line.learn(1)
    began = with_time.time()
    tasks = redis.enter("ab")
    assert await tasks["a"] == LATER
    told = await tasks["b"]
    assert told.reason == LATER.reason
    assert told.wait_s == pytest.approx(LATER.wait_s - (with_time.time() - began), abs=0.1)
    assert told.wait_s < LATER.wait_s


async def test_after_a_grant_an_old_refusal_says_nothing_of_when_to_ask() -> None:
    """The first refusal, of 100 s, ended one wait; later the last slot goes to one, and the next asks soon."""
    redis = Redis(slots=0, refusal=LATER)
    assert await redis.enter("a")["a"] == LATER
    redis.free(1)
    assert await redis.enter("b")["b"] == GO
    redis.slots = 1  # freed by another process
    assert await asyncio.wait_for(redis.enter("c")["c"], 10) == GO


@pytest.mark.parametrize("leaver", ["a", "b"])
async def test_whoever_is_cancelled_in_the_line_is_no_obstacle(leaver: str) -> None:
    redis = Redis(slots=0)
    tasks = redis.enter("abc")
    await settled()
    tasks[leaver].cancel()
    await settled()
    redis.free(5)
    left = [task for name, task in tasks.items() if name != leaver]
    assert await asyncio.gather(*left) == [GO, GO]
    assert not redis.line


async def test_a_slot_for_one_who_left_while_redis_was_asked_is_given_up() -> None:
    redis, tasks = await asked_for_three()
    assert redis.asked[-1] == ["a", "b", "c"]
    tasks["b"].cancel()
    await settled()
    redis.answering.set()
    assert await asyncio.gather(tasks["a"], tasks["c"]) == [GO, GO]
    assert redis.given_up == ["b"]


async def test_when_the_first_is_cancelled_in_the_middle_of_asking_the_next_one_asks_again() -> None:
    redis, tasks = await asked_for_three()
    tasks["a"].cancel()
    await settled()
    redis.answering.set()
    assert await asyncio.gather(tasks["b"], tasks["c"]) == [GO, GO]
    assert redis.asked[-1] == ["b", "c"]


async def test_no_answer_reaches_all_who_were_asked_for() -> None:
    redis = Redis(slots=0)
    tasks = redis.enter("abc")
    await settled()
    redis.away = True
    redis.free(1)
    found = await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert [type(answer) for answer in found] == [LimiterUnavailable] * 3
    assert not redis.line


async def test_stopping_lets_everybody_go() -> None:
    redis = Redis(slots=0)
    tasks = redis.enter("abc")
    await settled()
    redis.line.stop()
    assert await asyncio.gather(*tasks.values()) == [STOPPED] * 3


async def test_stopping_is_not_undone_by_an_answer_that_was_under_way() -> None:
    redis = Redis(slots=0, refusal=LATER)
    redis.answering.clear()
    tasks = redis.enter("abc")
    await settled()
    redis.line.stop()
    redis.answering.set()
    found = await asyncio.wait_for(asyncio.gather(*tasks.values()), 5)
    assert found == [LATER, STOPPED, STOPPED]
    redis.line.learn(0)
    assert await asyncio.wait_for(redis.enter("d")["d"], 5) == STOPPED


async def test_a_teller_that_is_cancelled_leaves_nobody_waiting() -> None:
    async def tell(items: Sequence[int]) -> None:
        await asyncio.Event().wait()

    together = Together(tell)
    waiting = [asyncio.create_task(together.put(number)) for number in (1, 2)]
    await settled()
    waiting.append(asyncio.create_task(together.put(3)))
    await settled()
    assert together._telling is not None
    together._telling.cancel()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in found] == [asyncio.CancelledError] * 3


async def test_what_comes_while_something_is_told_is_told_together() -> None:
    told: list[list[int]] = []
    gate = asyncio.Event()

    async def tell(items: Sequence[int]) -> None:
        told.append(list(items))
        await gate.wait()
        if 3 in items:
            raise LimiterUnavailable("away")

    together = Together(tell)
    first = [asyncio.create_task(together.put(number)) for number in (1, 2)]
    await settled()
    then = [asyncio.create_task(together.put(number)) for number in (3, 4)]
    await settled()
    then[1].cancel()
    gate.set()
    found = await asyncio.gather(*first, *then, return_exceptions=True)
    assert told == [[1, 2], [3, 4]]
    assert [type(each) for each in found] == [
        type(None),
        type(None),
        LimiterUnavailable,
        asyncio.CancelledError,
    ]
    await together.put(5)
    assert told[-1] == [5]
