"""How many jobs a lane is given at once. The queue holds 2,000 of all lanes together."""

import pytest

from db.dispatch import OpenLane
from scheduler.dispatcher import shares


def lane(number: int, *, queued: int, running: int = 0, proven: bool = True) -> OpenLane:
    return OpenLane(
        run=1,
        lane=number,
        proven=proven,
        queued=queued,
        running=running,
        tokens_left=None,
        cost_left_usd=None,
        trial_tokens=None,
        trial_cost_usd=None,
    )


@pytest.mark.parametrize(
    ("lanes", "given"),
    [
        ([lane(1, queued=0)], {1: 2_000}),
        ([lane(1, queued=1_500, running=900)], {1: 500}),
        ([lane(1, queued=1_501)], {}),  # less than a quarter is free: messages of a job or two would follow
        ([lane(1, queued=2_000)], {}),
        ([lane(1, queued=900), lane(2, queued=0)], {2: 1_000}),  # 1,000 each; 100 free is too few
        ([lane(1, queued=0, proven=False)], {1: 1}),  # its first call goes alone
        ([lane(1, queued=1, proven=False)], {}),
        ([lane(1, queued=0, running=1, proven=False)], {}),
        (
            [lane(number, queued=0) for number in range(2_001)],
            dict.fromkeys(range(2_001), 1),
        ),  # nobody starves
    ],
)
def test_a_lane_is_given_what_its_share_lacks_when_that_is_worth_it(
    lanes: list[OpenLane], given: dict[int, int]
) -> None:
    assert {lane.lane: most for lane, most in shares(lanes)} == given
