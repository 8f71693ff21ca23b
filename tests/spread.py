"""A sample of the tests of a selection: as many as `--spread` says, taken from all kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["choose_spread"]


def choose_spread(names: Sequence[str], count: int) -> list[str]:
    """At most ``count`` names, the same number of each kind as far as there are: a kind is the function with the
    part of its parameters before the first digit, dot or bracket."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(re.split(r"[\d.(]", name.partition("::")[2], maxsplit=1)[0], []).append(name)
    columns = list(kinds.values())
    if len(columns) >= count:  # evenly over the kinds
        return [columns[i * len(columns) // count][0] for i in range(count)]
    order = sorted(
        (index / len(column), number, name)
        for number, column in enumerate(columns)
        for index, name in enumerate(column)
    )
    return [name for _, _, name in order[:count]]
