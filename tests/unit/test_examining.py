"""Verdicts that Postgres refuses: each is tried alone, and only the refused one is given up."""

from collections.abc import Sequence

import psycopg

from db.judging import FinishedJudging
from workers.examining import Examiner, _given_up
from workers.storing import store


class Refusing(Examiner):
    """Refuses whatever holds a verdict of judging 2, or anything of it; remembers the rest."""

    def __init__(self, *, anything: bool = False) -> None:
        self._anything = anything
        self.stored: list[FinishedJudging] = []

    async def _commit(self, judgings: Sequence[FinishedJudging]) -> None:
        if any(one.judging == 2 and (one.verdicts or self._anything) for one in judgings):
            raise psycopg.DataError("out of range\nCONTEXT: verdict")
        self.stored += judgings


def three() -> list[FinishedJudging]:
    verdict = {"winner": 7, "loser": 8, "tie": False, "items": 2}
    return [
        FinishedJudging(
            judging=number,
            version=3,
            state="ok",
            readings=[{"shown": [7, 8], "scores": [1, 0]}],
            verdicts=[verdict],
        )
        for number in (1, 2, 3)
    ]


async def test_one_of_which_nothing_can_be_stored_keeps_nobody_back() -> None:
    examiner = Refusing(anything=True)
    await store(three(), examiner._commit, _given_up)
    assert [one.judging for one in examiner.stored] == [1, 3]


async def test_a_refused_verdict_is_given_up_alone() -> None:
    examiner = Refusing()
    found = three()
    await store(found, examiner._commit, _given_up)
    assert [one.judging for one in examiner.stored] == [1, 2, 3]
    assert (examiner.stored[0], examiner.stored[2]) == (found[0], found[2])
    refused = examiner.stored[1]
    assert (refused.state, refused.version, refused.verdicts) == ("failed", 3, [])
    assert refused.readings == [{"shown": [7, 8], "problem": "cannot be stored: out of range"}]
