"""Plausible wrong answers: the right one with numbers changed, a row missing or one JSON field wrong."""

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

WANTED = 8
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STOCK = ("unknown", "none of the given", "cannot be determined", "all of the given", "0")


@lru_cache(maxsize=4096)
def wrong_answers(right: str) -> tuple[str, ...]:
    """Several different wrong versions of `right`; the same text always gives the same ones."""
    rng = random.Random(right)
    spoil = _spoiler(right, rng)
    found: dict[str, None] = {}
    for _ in range(6 * WANTED):
        wrong = spoil()
        if wrong.split() != right.split():
            found.setdefault(wrong)
        if len(found) == WANTED:
            break
    if len(found) < 3:  # Something like "Paris" or "true": nothing in it to change in several ways.
        found |= dict.fromkeys(wrong for wrong in _STOCK if wrong != right)
    return tuple(found)


def _spoiler(right: str, rng: random.Random) -> Callable[[], str]:
    """The function that makes one wrong version of `right` after the other."""
    try:
        parsed = json.loads(right)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict | list) and parsed:
        indent = 2 if "\n" in right else None
        return lambda: json.dumps(_spoil_json(parsed, rng), ensure_ascii=False, indent=indent)
    return lambda: _spoil_text(right, rng)


def _spoil_json(value: Any, rng: random.Random) -> Any:
    """A copy with one field wrong, or one item of a list missing."""
    changed = copy.deepcopy(value)
    parent, key = rng.choice(list(_places(changed)))
    item = parent[key]
    if isinstance(parent, list) and rng.random() < 0.3:
        del parent[key]
    elif isinstance(item, bool):
        parent[key] = not item
    elif isinstance(item, int | float):
        parent[key] = json.loads(_change_number(str(abs(item)), rng)) if "e" not in str(item) else 0
    elif isinstance(item, str):
        parent[key] = _spoil_text(item, rng)
    else:  # null, or an empty list or object
        parent[key] = "unknown"
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) whose item holds no further items."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list) and item:
            yield from _places(item)
        else:
            yield value, key


def _spoil_text(text: str, rng: random.Random) -> str:
    rows = text.splitlines()
    if len(rows) > 2 and rng.random() < 0.4:
        del rows[rng.randrange(1, len(rows))]
        return "\n".join(rows)
    if _NUMBER.search(text):
        return _change_numbers(text, rng)
    words = text.split()
    if len(words) > 2:
        del words[rng.randrange(len(words))]
        return " ".join(words)
    return rng.choice(_STOCK)


def _change_numbers(text: str, rng: random.Random) -> str:
    """About a third of the numbers changed, at least one: no check may look at a single one."""
    count = len(_NUMBER.findall(text))
    chosen = set(rng.sample(range(count), max(1, count // 3)))
    position = iter(range(count))
    return _NUMBER.sub(
        lambda match: _change_number(match[0], rng) if next(position) in chosen else match[0], text
    )


def _change_number(digits: str, rng: random.Random) -> str:
    """Another number with as many decimals (and leading zeros) as `digits` has."""
    decimals = len(digits.partition(".")[2])
    value = float(digits)
    unit = 10.0**-decimals
    step = rng.choice((1, 2, 3, 5, 10)) * unit if rng.random() < 0.6 else max(unit, 0.1 * value)
    changed = value + step if value < step or rng.random() < 0.5 else value - step
    return f"{changed:.{decimals}f}".zfill(len(digits) if digits.startswith("0") else 0)
