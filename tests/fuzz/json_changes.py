"""Changes of JSON values: of their structure (members that are missing, of other types, doubled, exchanged), and of
values alone, which get past the checks of form."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["changed", "exchanged"]

_VALUES = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**53, 2**64, -(2**63), 0.5, -0.0, 1e300, "", "a", "0", "../x", "\x00",
    "é" * 40, "{", [], [[]], [1], ["a"], {}, {"a": 1}, {"float": "nan"}, {"batch": [1, 0]}, {"batch": [0, 2**40]},
)  # fmt: skip


def changed(value: Any, rng: random.Random, count: int = 1) -> Any:
    """A copy of a JSON value with ``count`` changes."""
    value = [copy.deepcopy(value)]
    for _ in range(count):
        places = list(_places(value))
        if not places:
            return []
        container, key = rng.choice(places)
        _change(container, key, places, rng)
    return value[0] if value else None


def _places(value: Any):
    """Every (container, key) of a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _change(container: Any, key: Any, places: list[tuple[Any, Any]], rng: random.Random) -> None:
    kind = rng.randrange(7)
    value = container[key]
    if kind == 0 and len(places) > 1:
        del container[key]
    elif kind == 1:
        container[key] = copy.deepcopy(rng.choice(_VALUES))
    elif kind == 2:  # what stands elsewhere in the file
        other, place = rng.choice(places)
        if place in other if isinstance(other, dict) else place < len(other):
            container[key] = copy.deepcopy(other[place])
    elif kind == 3 and isinstance(container, list):
        container.insert(rng.randrange(len(container) + 1), copy.deepcopy(value))
    elif kind == 4 and isinstance(value, int | float) and not isinstance(value, bool):
        container[key] = value + rng.choice((-1, 1, 2, 1000, -value, -2 * value, 0.5))
    elif kind == 5 and isinstance(value, str) and value:
        at = rng.randrange(len(value))
        container[key] = value[:at] + rng.choice(("", value[:at], "\n", "9", " ")) + value[at + 1 :]
    elif isinstance(container, dict):
        container[f"{key}x"] = container.pop(key)
    else:
        rng.shuffle(container)


def exchanged(
    value: Any, rng: random.Random, count: int = 1, alternatives: Mapping[str, Sequence[Any]] | None = None
) -> Any:
    """A copy of a JSON value with ``count`` members exchanged for others of the same type: what has the same key
    elsewhere, a number near it, items of a list in another order. alternatives: further values, by key."""
    value = [copy.deepcopy(value)]
    for _ in range(count):
        for _ in range(20):  # until one is another value
            places = list(_places(value))
            container, key = rng.choice(places)
            new = _alternative(container, key, places, rng, alternatives or {})
            if new is not None and new != container[key]:
                container[key] = copy.deepcopy(new)
                break
    return value[0]


def _alternative(
    container: Any,
    key: Any,
    places: list[tuple[Any, Any]],
    rng: random.Random,
    alternatives: Mapping[str, Sequence[Any]],
) -> Any:
    """Another value of the same type for a place; None for none."""
    value = container[key]
    if key in alternatives and rng.random() < 0.7:
        return rng.choice(alternatives[key])
    kind = rng.randrange(3)
    if kind == 0 or isinstance(value, str):  # what has the same key
        alike = [one[k] for one, k in places if k == key and type(one) is type(container)]
        others = [one for one in alike if type(one) is type(value)]
        if isinstance(value, list):
            others = [one for one in others if len(one) == len(value)]
        return rng.choice(others)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, 2 * value, value // 2, -value, 1, 2, 3))
    if isinstance(value, float):
        return rng.choice((value + 0.1, value * 2, value / 2, -value, 0.0, 1.0))
    if isinstance(value, list) and len(value) > 1:
        first, second = rng.sample(range(len(value)), 2)
        new = list(value)
        new[first] = value[second]
        if kind == 1:
            new[second] = value[first]
        return new
    return None
