"""Patterns of names: which layers or weights a field such as ``freeze: ["conv*", "stage1/**"]`` concerns.

``*`` and ``?`` stand for characters other than ``/``, ``[abc]`` for one of these, ``**`` for any characters, and a
pattern that ends in ``/**`` matches all that is below. The rules are those of ``.gitignore`` and of shells with
``globstar``; a pattern matches a whole name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from prototorch.errors import UsageError, did_you_mean
from prototorch.text.limits import MAX_NAME_LENGTH

__all__ = ["check_matches", "matches", "matches_weight"]

_MAX_WILDCARDS = 16  # of a pattern: the time of a match grows with their number


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern matches the name. Raises UsageError for an invalid pattern."""
    return _compiled(pattern).fullmatch(name) is not None


def matches_weight(pattern: str, name: str) -> bool:
    """Whether the pattern matches a weight ``layer/weight`` or its layer."""
    return matches(pattern, name) or matches(pattern, name.rpartition("/")[0])


def check_matches(pattern: str, names: Iterable[str], kind: str) -> None:
    """Raise UsageError unless the pattern matches one of the names. kind: what they are, "layer" or "weight"."""
    every = list(names)
    if not any(matches(pattern, name) for name in every):
        raise UsageError(f"{pattern!r} matches no {kind}.{did_you_mean(pattern.strip('*/'), every)}")


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    if len(pattern) > MAX_NAME_LENGTH or pattern.count("*") > _MAX_WILDCARDS:
        raise UsageError(
            f"the pattern {pattern[:80]!r} has more than {MAX_NAME_LENGTH} characters or {_MAX_WILDCARDS} *"
        )
    expression, end = "", 0
    for part in re.finditer(r"\*\*|\*|\?|\[[^\[\]]+\]|[^*?\[]+|\[", pattern):
        text, end = part.group(), part.end()
        if text == "**":
            expression += ".*"
        elif text == "*":
            expression += "[^/]*"
        elif text == "?":
            expression += "[^/]"
        elif text.startswith("[") and len(text) > 1:
            negated = text[1] in "!^" and len(text) > 3
            characters = re.escape(text[1 + negated : -1]).replace("\\-", "-")
            expression += f"[{'^' if negated else ''}{characters}]"
        else:
            expression += re.escape(text)
    assert end == len(pattern)
    try:
        return re.compile(expression)
    except re.error as error:
        raise UsageError(f"the pattern {pattern[:80]!r} is invalid: {error}") from None
