"""The kinds of several rounds, against hand-made replies."""

from collections.abc import Sequence

import pytest

from workers.strategies import Answer, ModelCall, Reply, Strategy, StrategyInvalid, TaskView, strategy
from workers.strategies.marks import after_mark, marked_number, marked_word

TASK = TaskView(task_id="t1", goal="How many rows?", files={"a.csv": "x\n1\n"})


def build(kind: str, **params: object) -> Strategy:
    return strategy(kind, {"model": "m", **params})


def play(built: Strategy, *rounds: Sequence[str]) -> Sequence[ModelCall] | Answer:
    """What the strategy does after these rounds of replies; each round has to be what it asked for."""
    calls = built.opening(TASK)
    replies: list[Reply] = []
    for number, contents in enumerate(rounds, start=1):
        assert [(c.round, c.sample) for c in calls] == [(number, i + 1) for i in range(len(contents))]
        replies += [Reply(round=number, sample=i, content=c) for i, c in enumerate(contents, start=1)]
        step = built.proceed(TASK, replies)
        if isinstance(step, Answer):
            assert number == len(rounds)
            return step
        calls = step
    return calls


def asked(built: Strategy, *rounds: Sequence[str]) -> Sequence[ModelCall]:
    step = play(built, *rounds)
    assert not isinstance(step, Answer)
    return step


def answer(built: Strategy, *rounds: Sequence[str]) -> Answer:
    step = play(built, *rounds)
    assert isinstance(step, Answer)
    return step


def text(call: ModelCall) -> str:
    return str(call.messages[-1]["content"])


@pytest.mark.parametrize(
    ("kind", "params", "calls"),
    [
        ("single", {}, (1, 1)),
        ("self_consistency", {"k": 5}, (5, 5)),
        # two debaters, two rounds, and an aggregator on disagreement: 2 * 2 + 0 or 1
        ("debate", {}, (4, 5)),
        ("debate", {"debaters": 3, "rounds": 3, "decision": "vote"}, (9, 9)),
        ("verifier_rerank", {"n": 4}, (8, 8)),  # 4 candidates + 4 scores
        ("verifier_rerank", {"n": 4, "mode": "pick"}, (5, 5)),  # 4 candidates + 1 pick
        ("best_of_n", {"n": 4}, (8, 8)),
        ("self_refine", {"revisions": 2}, (2, 5)),  # draft, critique; or 1 + 2 * 2
    ],
)
def test_calls_of_a_trial(kind: str, params: dict[str, object], calls: tuple[int, int]) -> None:
    assert build(kind, **params).calls == calls


# debate


def test_debaters_see_the_others_last_round_and_their_own() -> None:
    built = build("debate", debaters=3, rounds=2)
    calls = asked(built, ["one says 1", "two says 2", "three says 3"])
    assert [call.round for call in calls] == [2, 2, 2]
    own, others = text(calls[1]).split("These are the answers of the others:")
    assert "two says 2" in own
    assert "Debater 1:\n```\none says 1\n```\n\nDebater 3:\n```\nthree says 3\n```" in others
    assert "two says 2" not in others
    assert TASK.goal in own


def test_a_debate_that_agrees_takes_no_aggregator() -> None:
    got = answer(build("debate"), ["Answer: 1", "Answer: 2"], ["Answer: 2", "Answer: 2.0"])
    assert (got.text, got.detail["aggregator"]) == ("2", False)
    assert got.detail["votes"] == [{"answer": "2", "samples": [1, 2], "weight": 2.0}]


def test_a_debate_with_a_majority_takes_no_aggregator() -> None:
    got = answer(build("debate", debaters=3, rounds=1), ["Answer: 1", "Answer: 2", "Answer: 2"])
    assert got.text == "2"


def test_a_debate_that_disagrees_asks_the_aggregator() -> None:
    built = build("debate", aggregator_model="judge", temperature=0.9)
    rounds = [["Answer: 1", "Answer: 2"], ["I stay.\nAnswer: 1", "I stay.\nAnswer: 2"]]
    (call,) = asked(built, *rounds)
    assert (call.round, call.sample, call.model, call.temperature) == (3, 1, "judge", 0)
    assert "Debater 2:\n```\nI stay.\nAnswer: 2\n```" in text(call)
    got = answer(built, *rounds, ["Two is right.\nAnswer: 2"])
    assert (got.text, got.detail["aggregator"]) == ("2", True)
    assert built.models == {"m", "judge"}


def test_a_debate_may_be_settled_by_vote_alone() -> None:
    assert answer(build("debate", rounds=1, decision="vote"), ["Answer: 1", "Answer: 2"]).text == "1"


def test_each_debater_may_have_a_model_of_its_own() -> None:
    built = build("debate", debater_models=["a", "b"], decision="vote")
    assert [call.model for call in built.opening(TASK)] == ["a", "b"]
    assert [call.model for call in asked(built, ["x", "y"])] == ["a", "b"]
    assert built.models == {"a", "b"}
    with pytest.raises(StrategyInvalid, match="1 models for 2 debaters"):
        build("debate", debater_models=["a"])


# verifier_rerank

CANDIDATES = ["Answer: 1", "Answer: 2", "so\nAnswer: 2.0"]


def test_the_verifier_sees_each_candidate_in_a_call_of_its_own() -> None:
    calls = asked(build("verifier_rerank", verifier_model="v"), CANDIDATES)
    assert [(c.round, c.sample, c.model, c.temperature) for c in calls] == [(2, i, "v", 0) for i in (1, 2, 3)]
    assert "```\nso\nAnswer: 2.0\n```" in text(calls[2])
    assert "Answer: 1\n" not in text(calls[2])


@pytest.mark.parametrize(
    ("choose", "verified", "expected"),
    [
        ("best", ["Score: 9", "Score: 5", "Score: 5"], "1"),
        ("vote", ["Score: 9", "Score: 5", "Score: 5"], "2"),  # 5 + 5 > 9
        ("best", ["Score: 5", "Score: 5", "Score: 4"], "1"),  # a tie: the first
        ("best", ["no idea", "**Score: 3/10**", "Score: 11"], "2"),  # 11 is no score
        ("best", ["", "?", "Score: high"], "2"),  # none at all: a plain vote, 2 : 1
    ],
)
def test_scores(choose: str, verified: list[str], expected: str) -> None:
    assert answer(build("verifier_rerank", choose=choose), CANDIDATES, verified).text == expected


def test_scores_are_kept_and_a_silent_verifier_is_said() -> None:
    built = build("verifier_rerank")
    assert answer(built, CANDIDATES, ["Score: 1", "x", "Score: 2.5"]).detail == {"scores": [1.0, None, 2.5]}
    assert answer(built, CANDIDATES, ["x", "x", "x"]).detail["unverified"] is True


@pytest.mark.parametrize(
    ("reply", "expected"),
    [("Two errs.\nBest: 3", "2.0"), ("Best: 1.", "1"), ("Best: 4", "2"), ("Best: 1.5", "2"), ("none", "2")],
)
def test_pick(reply: str, expected: str) -> None:
    built = build("verifier_rerank", mode="pick")
    (call,) = asked(built, CANDIDATES)
    assert "Solution 1:\n```\nAnswer: 1\n```\n\nSolution 2:" in text(call)
    assert answer(built, CANDIDATES, [reply]).text == expected


# best_of_n


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["Verdict: right", "Verdict: wrong", "Verdict: wrong"], "1"),
        (["Verdict: right", "Verdict: right", "Verdict: right"], "2"),  # 1 : 2
        (["Verdict: wrong", "Verdict: wrong", "Verdict: wrong"], "2"),  # none: all of them vote
        (["who knows", "", "**Verdict:** RIGHT."], "2.0"),
    ],
)
def test_best_of_n(verdicts: list[str], expected: str) -> None:
    got = answer(build("best_of_n"), CANDIDATES, verdicts)
    assert got.text.startswith(expected[0])
    assert got.detail["votes"][0]["answer"] == got.text


def test_best_of_n_checks_with_its_own_model() -> None:
    calls = asked(build("best_of_n", temperature=1), CANDIDATES)
    assert {(call.model, call.temperature) for call in calls} == {("m", 0)}


# self_refine


def test_self_refine_stops_when_the_critic_is_content() -> None:
    got = answer(build("self_refine"), ["Answer: 1"], ["Fine.\nVerdict: good"])
    assert (got.text, got.detail) == ("1", {"revisions": 0, "stopped_early": True})


def test_self_refine_revises_at_most_so_often() -> None:
    built = build("self_refine", revisions=2)
    rounds = [["Answer: 1"], ["Too low."], ["Answer: 2"], ["Still.\nVerdict: revise"], ["Answer: 3"]]
    got = answer(built, *rounds)
    assert (got.text, got.detail) == ("3", {"revisions": 2, "stopped_early": False})
    early = answer(built, *rounds[:3], ["Verdict: good"])
    assert (early.text, early.detail) == ("2", {"revisions": 1, "stopped_early": True})


def test_self_refine_shows_draft_and_critique() -> None:
    built = build("self_refine", critic_model="c", temperature=0.5)
    (critique,) = asked(built, ["My draft."])
    assert (critique.model, critique.temperature) == ("c", 0)
    assert "```\nMy draft.\n```" in text(critique)
    (revision,) = asked(built, ["My draft."], ["Too short."])
    assert (revision.model, revision.temperature) == ("m", 0.5)
    assert "```\nMy draft.\n```" in text(revision)
    assert "```\nToo short.\n```" in text(revision)


# what holds for all


@pytest.mark.parametrize("kind", ["debate", "verifier_rerank", "best_of_n", "self_refine"])
def test_replies_are_put_in_literally(kind: str) -> None:
    built = build(kind)
    hostile = "{goal} {files} {0.__class__} {answers} ```` {unknown}"
    calls = asked(built, [hostile] * built.opening_samples)
    assert all(f"`````\n{hostile}\n`````" in text(call) for call in calls)


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("debate", {"debate_prompt": "{goal} {own}"}, "the placeholder {others} is missing"),
        ("debate", {"aggregator_prompt": "{answers} {others}"}, "unknown placeholder {others}"),
        (
            "verifier_rerank",
            {"score_prompt": "{goal} {reference} {candidate}"},
            "unknown placeholder {reference}",
        ),
        ("self_refine", {"revise_prompt": "{draft}"}, "the placeholder {critique} is missing"),
    ],
)
def test_prompts_of_roles_are_checked(kind: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(StrategyInvalid) as refused:
        build(kind, **params)
    assert message in str(refused.value)


def test_a_strategy_is_shown_neither_checks_nor_reference() -> None:
    assert set(TaskView.__dataclass_fields__) == {"task_id", "goal", "category", "files"}


def test_marks() -> None:
    assert after_mark("none", "score") is None
    assert after_mark("Score: 1\nscore: 2", "score") == "2"
    assert marked_word("# Verdict: *Good*, thanks", "verdict") == "good"
    assert marked_word("Verdict:", "verdict") == ""
    assert marked_number("Score: `7.5` of 10", "score") == 7.5
    assert marked_number("Score: N/A 3", "score") is None
    assert marked_number("Score: -3", "score") is None
