"""Added tokens: strings that are a token of their own wherever a text has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.errors import DataError
from prototorch.tokenization.characters import is_space, is_word_character
from prototorch.tokenization.fields import value
from prototorch.tokenization.vocabulary import MAX_IDS

__all__ = ["AddedToken", "read_added_tokens", "split_at_tokens"]

MAX_TOKENS = 1 << 13
MAX_LENGTH = 1000  # characters


@dataclass(frozen=True)
class AddedToken:
    """A token that is found in the text before (or, ``is_normalized``, after) its normalization."""

    id: int
    content: str
    is_special: bool
    is_normalized: bool
    strips_left: bool
    strips_right: bool
    is_single_word: bool


def read_added_tokens(entries: Any) -> list[AddedToken]:
    """The added tokens of a file. Raises DataError for what is none."""
    if not isinstance(entries, list) or len(entries) > MAX_TOKENS:
        raise DataError(f"tokenizer file: added_tokens must be a list of at most {MAX_TOKENS:,}")
    tokens = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise DataError("tokenizer file: an added token must be an object")
        flags = {name: value(entry, name, bool, False) for name in ("special", "lstrip", "rstrip", "single_word")}
        token = AddedToken(
            value(entry, "id", int, -1),
            value(entry, "content", str),
            flags["special"],
            value(entry, "normalized", bool, not flags["special"]),
            flags["lstrip"],
            flags["rstrip"],
            flags["single_word"],
        )
        if not 0 <= token.id < MAX_IDS or not 0 < len(token.content) <= MAX_LENGTH:
            raise DataError(f"tokenizer file: an added token needs an id and 1 to {MAX_LENGTH:,} characters")
        tokens.append(token)
    return tokens


def split_at_tokens(text: str, tokens: Sequence[AddedToken]) -> list[str | int]:
    """The text in parts: what lies between added tokens, and the ids of these; at each place the longest one."""
    if not tokens:
        return [text] if text else []
    by_content = {token.content: token for token in tokens}
    pattern = re.compile("|".join(re.escape(c) for c in sorted(by_content, key=len, reverse=True)))
    parts, at = list[str | int](), 0
    for match in pattern.finditer(text):
        token, (start, end) = by_content[match.group()], match.span()
        if start < at or (token.is_single_word and _is_in_word(text, start, end)):
            continue
        while token.strips_left and start > at and is_space(text[start - 1]):
            start -= 1
        while token.strips_right and end < len(text) and is_space(text[end]):
            end += 1
        if start > at:
            parts.append(text[at:start])
        parts.append(token.id)
        at = end
    if at < len(text):
        parts.append(text[at:])
    return parts


def _is_in_word(text: str, start: int, end: int) -> bool:
    around = (text[start - 1] if start else " ", text[end] if end < len(text) else " ")
    return any(map(is_word_character, around))
