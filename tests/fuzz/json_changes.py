"""Changes of the structure of JSON values: members that are missing, of other types, doubled, exchanged."""

from __future__ import annotations

import copy
import random
from typing import Any

__all__ = ["changed"]

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
