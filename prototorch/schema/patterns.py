"""Patterns of names: which layers or weights a field such as ``freeze: ["conv*", "!conv5"]`` concerns.

``*`` and ``?`` stand for characters other than ``/``, ``[abc]`` and ``[!a-c]`` for one of these or none of these,
``**`` for any characters, ``**/`` for any number of folders, none included. The rules are those of ``.gitignore`` and
of shells with ``globstar``. In a list of patterns the last one that matches decides, and one that begins with ``!``
takes out again; there a pattern that matches a folder (a block of a text, a layer) matches all that is in it.

A pattern comes from a file, so that it is no regular expression: it is matched in time proportional to its length and
the name's, by one bit for each position in the name (Baeza-Yates and Gonnet, 1992).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from prototorch.errors import UsageError, did_you_mean
from prototorch.schema.types import Str
from prototorch.schema.validation import ValidationError
from prototorch.text.limits import MAX_NAME_LENGTH

__all__ = ["Pattern", "check_matches", "check_patterns", "find_pattern_error", "includes", "matches", "matches_below"]

_TOKEN = re.compile(r"(?:(?<=/)|^)\*\*/|\*\*+|\*|\?|\[[!^]?[^\[\]/]+\]|.", re.DOTALL)
_Step = Callable[[int, str], int]


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern matches the whole name. Raises UsageError for an invalid pattern."""
    return bool(_end_positions(pattern, name) >> len(name) & 1)


def matches_below(pattern: str, name: str) -> bool:
    """Whether the pattern matches the name or a folder that it is in: ``logits`` matches ``logits/kernel``."""
    ends = _end_positions(pattern, name)
    return bool(ends >> len(name) & 1) or any(ends >> i & 1 for i, c in enumerate(name) if c == "/")


def includes(patterns: Sequence[str], *names: str) -> bool:
    """Whether a list of patterns includes something of one or several names: see the module."""
    for pattern in reversed(patterns):
        if any(matches_below(pattern.removeprefix("!"), name) for name in names):
            return not pattern.startswith("!")
    return False


def check_matches(pattern: str, names: Iterable[str], kind: str) -> None:
    """Raise UsageError, with a suggestion, unless the pattern matches one of the names or folders. kind: what they are,
    "layer" or "weight"."""
    every = list(names)
    if not any(matches_below(pattern, name) for name in every):
        folders = {name[:i] for name in every for i, c in enumerate(name) if c == "/"}
        hint = did_you_mean(pattern.strip("*/"), [*every, *sorted(folders - set(every))])
        raise UsageError(f"{pattern!r} matches no {kind}.{hint}")


def check_patterns(patterns: Sequence[str], names: Iterable[str], kind: str) -> None:
    """Raise UsageError unless each pattern of a list, those with ``!`` too, matches one of the names or folders, and
    the first one takes something in."""
    every = list(names)
    if patterns and patterns[0].startswith("!"):
        raise UsageError(
            f"{patterns[0]!r} takes out of a list in which nothing is yet: write ['**', {patterns[0]!r}] for all but "
            "these"
        )
    for pattern in patterns:
        check_matches(pattern.removeprefix("!"), every, kind)


def find_pattern_error(pattern: str) -> str | None:
    """Why a pattern is invalid, None if it is valid."""
    try:
        _compiled(pattern)
    except UsageError as error:
        return str(error)
    return None


class Pattern(Str):
    """A field: a pattern of names, with ``!`` in front where it takes out."""

    def describe(self) -> str:
        return "a pattern of names"

    def label(self) -> str:
        return "pattern"

    def convert(self, value: Any) -> str:
        text = super().convert(value)
        error = find_pattern_error(text.removeprefix("!"))
        if error is not None:
            raise ValidationError(f"is no pattern of names: {error}", right_kind=True)
        return text


def _end_positions(pattern: str, name: str) -> int:
    """The positions in the name up to which the pattern matches from its beginning, a bit each."""
    positions = 1
    for step in _compiled(pattern):
        positions = step(positions, name)
        if not positions:
            break
    return positions


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> tuple[_Step, ...]:
    if not 0 < len(pattern) <= MAX_NAME_LENGTH:
        raise UsageError(f"the pattern {pattern[:80]!r} has {len(pattern)} characters, expected 1 to {MAX_NAME_LENGTH}")
    return tuple(_step(token.group(), pattern) for token in _TOKEN.finditer(pattern))


def _step(token: str, pattern: str) -> _Step:
    """How the positions in a name move with a part of a pattern."""
    if token == "**/":
        return lambda positions, name: positions | _above(positions) & _positions_of(name, "/") << 1
    if token.startswith("**"):
        return lambda positions, name: _above(positions) & (2 << len(name)) - 1
    if token == "*":
        return _within_part
    if token == "?":
        return lambda positions, name: (positions & ~_positions_of(name, "/") & (1 << len(name)) - 1) << 1
    if len(token) > 1:
        characters, is_negated = _character_class(token, pattern)
        return lambda positions, name: (positions & _positions_of(name, characters, is_negated)) << 1
    return lambda positions, name: (positions & _positions_of(name, token)) << 1


def _above(positions: int) -> int:
    """All positions from the lowest one on."""
    return -(positions & -positions)


def _within_part(positions: int, name: str) -> int:
    """The positions, and all that follow them without a ``/`` between: the carry of an addition runs through them."""
    free = ~_positions_of(name, "/") & (1 << len(name)) - 1
    return positions | ((positions & free) + free) ^ free


@lru_cache(maxsize=4096)
def _positions_of(name: str, characters: str, is_negated: bool = False) -> int:
    """The positions of a name at which there is one of the characters, a bit each; a class reaches over no ``/``."""
    positions = (i for i, c in enumerate(name) if (c in characters) != is_negated and (c != "/" or not is_negated))
    return sum(1 << i for i in positions)


def _character_class(token: str, pattern: str) -> tuple[str, bool]:
    """The characters of ``[a-c_]``, and whether they are those that do not match."""
    is_negated = token[1] in "!^" and len(token) > 3
    body = token[1 + is_negated : -1]
    characters = ""
    while body:
        if len(body) > 2 and body[1] == "-":
            first, last = ord(body[0]), ord(body[2])
            if not first <= last <= first + 1000:
                raise UsageError(f"the pattern {pattern[:80]!r} is invalid: the range {body[:3]!r}")
            characters, body = characters + "".join(map(chr, range(first, last + 1))), body[3:]
        else:
            characters, body = characters + body[0], body[1:]
    return characters, is_negated
