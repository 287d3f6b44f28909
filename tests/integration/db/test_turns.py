"""Turns of an external agent: several ledger rows of one call, settled together, once."""

import json

from analysis.usage import UNKNOWN_USAGE, Usage
from db import advance, work
from db.ledger import export_lines
from db.reader import Row
from db.settlement import LaterTurn
from tests.store import OTHER, WORKER, Store

SECOND = LaterTurn(
    usage=Usage(input_tokens=20, output_tokens=7, total_tokens=27),
    raw_usage={"input_tokens": 20},
    cost_usd=0.002,
    content="The answer is 42.",
)
TURNS = {"content": "I look.", "later_turns": [SECOND], "finish_reason": "turn"}


def calls(store: Store) -> list[Row]:
    return store.rows("SELECT * FROM call ORDER BY job, attempt, turn")


def sums(store: Store) -> Row:
    [row] = store.rows(
        "SELECT sum(ok_calls)::int AS ok, sum(unknown_calls)::int AS unknown, sum(input_tokens)::int AS input, "
        "sum(output_tokens)::int AS output, sum(held_tokens)::int AS held, sum(cost_usd) AS cost FROM tally"
    )
    return row


async def test_the_turns_of_a_call_are_settled_together_and_once(store: Store) -> None:
    await store.to("started")
    settlement = store.answer_of(**TURNS)
    assert settlement.whole_cost_usd == 0.003
    assert len(await store.settle(**TURNS)) == 1  # its trial is due
    once = store.everything()
    assert [(row["attempt"], row["turn"], row["total_tokens"], row["content"]) for row in calls(store)] == [
        (1, 1, 15, "I look."),
        (1, 2, 27, "The answer is 42."),
    ]
    # 10 + 20 in, 5 + 7 out, $0.001 + $0.002; the bound stands in the first row alone
    assert sums(store) == {"ok": 2, "unknown": 0, "input": 30, "output": 12, "held": 0, "cost": 0.003}
    assert [row["reserve_tokens"] > 0 for row in calls(store)] == [True, False]
    assert store.job()["attempt"] == store.job()["answer_attempt"] == 1

    # The batch is sent again, since nobody heard of its COMMIT.
    await work.commit(store.worker, worker=WORKER, starts=[], settlements=[settlement])
    again = store.everything()
    assert {name: again[name] for name in ("call", "tally", "job")} == {
        name: once[name] for name in ("call", "tally", "job")
    }

    rows = [json.loads(line) for line in export_lines(store.connection, run=store.run)]
    assert [(row["turn"], row["used"], row["total_tokens"]) for row in rows] == [(1, True, 15), (2, True, 27)]
    due = await store.lease()
    [[reply]] = (await advance.read_replies(store.worker, due)).values()
    assert (reply.content, reply.total_tokens) == ("The answer is 42.", 42)


async def test_a_late_answer_brings_its_turns_along(store: Store) -> None:
    """It was unknown, with its bound held; then both turns take its place."""
    await store.to("reaped")
    assert sums(store)["unknown"] == 1
    assert sums(store)["held"] == store.call()["reserve_tokens"]
    await store.settle(dispatch_no=1, **TURNS)
    assert sums(store) == {"ok": 2, "unknown": 0, "input": 30, "output": 12, "held": 0, "cost": 0.003}
    assert store.job()["answer_attempt"] == 1


async def test_a_turn_whose_usage_is_unknown_leaves_the_sum_unknown(store: Store) -> None:
    await store.to("started")
    await store.settle(content="42", later_turns=[LaterTurn(usage=UNKNOWN_USAGE, content="42")])
    [[reply]] = (await advance.read_replies(store.worker, await store.lease())).values()
    assert reply.total_tokens is None


async def test_only_the_files_of_the_used_answer_are_kept(store: Store) -> None:
    await store.to("sent again")
    await store.settle(worker=OTHER, files={"result.json": b"second", "notes.md": b"second"})
    # The first attempt comes back after all, too late to be used.
    await store.settle(attempt=1, dispatch_no=1, files={"result.json": b"first", "other.md": b"first"})
    files = store.rows("SELECT try, name, content FROM trial_file ORDER BY name")
    assert files == [
        {"try": 1, "name": "notes.md", "content": b"second"},
        {"try": 1, "name": "result.json", "content": b"second"},
    ]
