"""What has changed between two experiments, said place by place; and which changes make it another experiment."""

from pathlib import Path
from typing import Any

import pytest

from scheduler.experiment import digest, identity, load
from scheduler.plan import differences
from tests.experiments import write_experiment


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1, now 2"]),
        ({"a": None}, {"a": 0}, ["a: null, now 0"]),
        ({"a": True}, {"a": False}, ["a: true, now false"]),
        ({}, {"seed": 7}, ["seed: null, now 7"]),
        ({"b": 1, "a": 1}, {"a": 2, "b": 2}, ["a: 1, now 2", "b: 1, now 2"]),
        ({"model": {"name": "m", "t": 0}}, {"model": {"name": "n", "t": 0}}, ['model.name: "m", now "n"']),
        ({"s": [{"k": 3}, {"k": 5}]}, {"s": [{"k": 3}, {"k": 6}]}, ["s[2].k: 5, now 6"]),
        ({"s": [1, 2]}, {"s": [1]}, ["s: 2 entries, now 1"]),
        ({"s": [1]}, {"s": {"k": 1}}, ['s: [1], now {"k": 1}']),
        ({"p": "ä" * 80}, {"p": "b"}, ['p: "' + "ä" * 56 + '…, now "b"']),
    ],
)
def test_each_place_is_one_line(old: Any, new: Any, lines: list[str]) -> None:
    assert list(differences(old, new)) == lines
    assert all(len(line) < 150 for line in lines)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("temperature = 0.0", "temperature = 0.1", False),
        ("output_usd_per_1m = 0.6", "output_usd_per_1m = 0.7", False),
        ('kind = "single"', 'kind = "chain_of_thought"', False),
        ('kind = "single"', 'kind = "single"\nprompt = "{goal}!"', False),
        ('name = "baseline"', 'name = "other"', False),
        ("simulate = true", "simulate = true\ntimeout_s = 60", True),
        ("[model]", "[limits]\nrequests_per_minute = 60\n[model]", True),
        ("[model]", "[budget]\nrun_tokens = 1000\n[model]", True),
        ("[model]", "[retries]\nmax_tries = 2\n[model]", True),
        ("[model]", '[analysis]\nbaseline = "baseline"\n[model]', True),
        ("[model]", "# a remark\n[model]", True),
    ],
)
def test_what_shapes_an_answer_or_its_price_makes_another_experiment(
    tmp_path: Path, old: str, new: str, same: bool
) -> None:
    path = write_experiment(tmp_path)
    before = load(path)
    path.write_text(path.read_text().replace(old, new, 1))
    after = load(path)
    assert (before.experiment_hash == after.experiment_hash) is same
    assert (not differences(identity(before.document()), identity(after.document()))) is same


def test_a_digest_knows_content_and_not_order() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": [1, 2]}) != digest({"a": [2, 1]})
    assert digest({"a": 1}) != digest({"a": 1.5})
