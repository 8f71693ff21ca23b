"""Pre-tokenizers: where a text is split into the pieces that a model makes tokens of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from prototorch.errors import DataError
from prototorch.tokenization.characters import GPT2, is_number, is_punctuation, is_space, known_pattern
from prototorch.tokenization.fields import Part, make_part, value
from prototorch.tokenization.size_limit import SizeLimit

__all__ = ["PreTokenizer", "byte_characters", "pre_tokenize", "read_pre_tokenizers"]

#: of a piece, and whether it begins the text: the pieces that it is split into
PreTokenizer = Callable[[str, bool], list[str]]
_BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def read_pre_tokenizers(part: Any) -> list[PreTokenizer]:
    """The pre-tokenizers of a file, in order. Raises DataError for those that are not supported."""
    return make_part(part, "pre-tokenizer", _TABLE, "pretokenizers")


def pre_tokenize(steps: Sequence[PreTokenizer], text: str, is_first: bool, limit: SizeLimit) -> list[tuple[str, bool]]:
    """The pieces after all steps, and whether each begins the text. Raises DataError where they exceed the limit."""
    pieces = [(text, is_first)]
    for step in steps:
        pieces = [(inner, first and not at) for piece, first in pieces for at, inner in enumerate(step(piece, first))]
        limit.check(sum(len(piece) for piece, _ in pieces))
    limit.take(sum(len(piece) for piece, _ in pieces))
    return pieces


@cache
def byte_characters() -> tuple[str, ...]:
    """The character that stands for each byte in byte-level tokens: itself where it can be printed (GPT-2)."""
    printed = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (b for b in range(256) if b not in printed)
    table = {b: chr(b) for b in printed} | {b: chr(256 + n) for n, b in enumerate(others)}
    return tuple(table[b] for b in range(256))


def _pieces(text: str, matches: Iterable[tuple[int, int]], behavior: str, inverts: bool) -> list[str]:
    """The text split at matches, (start, end) in order."""
    spans, at = list[tuple[str, bool]](), 0
    for start, end in matches:
        if start > at:
            spans.append((text[at:start], inverts))
        if end > start:
            spans.append((text[start:end], not inverts))
        at = end
    if at < len(text):
        spans.append((text[at:], inverts))
    if behavior == "Removed":
        return [piece for piece, is_match in spans if not is_match]
    if behavior == "Isolated":
        return [piece for piece, _ in spans]
    out, before = list[str](), None
    for piece, is_match in spans if behavior != "MergedWithNext" else reversed(spans):
        joins = before is is_match if behavior == "Contiguous" else is_match and before is False
        if joins and out:
            out[-1] = piece + out[-1] if behavior == "MergedWithNext" else out[-1] + piece
        else:
            out.append(piece)
        before = is_match
    return out if behavior != "MergedWithNext" else out[::-1]


def _behavior(part: Part, default: str) -> str:
    name = value(part, "behavior", str, default)
    if name not in _BEHAVIORS:
        raise DataError(f"tokenizer file: behavior must be one of {', '.join(_BEHAVIORS)}, got {name[:40]!r}")
    return name


def _by_character(test: Callable[[str], bool], behavior: str) -> PreTokenizer:
    def run(text: str, _: bool) -> list[str]:
        return _pieces(text, ((i, i + 1) for i, c in enumerate(text) if test(c)), behavior, False)

    return run


def _by_pattern(pattern: re.Pattern[str], behavior: str, inverts: bool) -> PreTokenizer:
    return lambda text, _: _pieces(text, (m.span() for m in pattern.finditer(text)), behavior, inverts)


def _split(part: Part) -> PreTokenizer:
    pattern_fields, inverts = value(part, "pattern", dict), value(part, "invert", bool, False)
    behavior = _behavior(part, "Isolated")
    if isinstance(pattern_fields.get("String"), str) and pattern_fields["String"]:
        return _by_pattern(re.compile(re.escape(pattern_fields["String"])), behavior, inverts)
    pattern = known_pattern(pattern_fields["Regex"]) if isinstance(pattern_fields.get("Regex"), str) else None
    if pattern is None:
        raise DataError(
            "tokenizer file: Split has a regular expression that is not known; those of GPT-2, Llama 3 and Qwen 2 are"
        )
    return _by_pattern(pattern, behavior, inverts)


def _byte_level(part: Part) -> PreTokenizer:
    adds_space, splits = value(part, "add_prefix_space", bool, True), value(part, "use_regex", bool, True)
    pattern, characters = known_pattern(GPT2), byte_characters()
    assert pattern is not None

    def run(text: str, _: bool) -> list[str]:
        text = " " + text if adds_space and not text.startswith(" ") else text
        pieces = [m.group() for m in pattern.finditer(text)] if splits else [text]
        return ["".join(characters[b] for b in piece.encode("utf-8", "surrogatepass")) for piece in pieces]

    return run


def _metaspace(part: Part) -> PreTokenizer:
    sign, splits = value(part, "replacement", str, "▁"), value(part, "split", bool, True)
    scheme = value(part, "prepend_scheme", str, "always" if value(part, "add_prefix_space", bool, True) else "never")
    if len(sign) != 1 or scheme not in ("always", "first", "never"):
        raise DataError("tokenizer file: Metaspace needs a replacement of one character, and a known prepend_scheme")

    def run(text: str, is_first: bool) -> list[str]:
        text = text.replace(" ", sign)
        if not text.startswith(sign) and (scheme == "always" or (scheme == "first" and is_first)):
            text = sign + text
        if not splits:
            return [text]
        return _pieces(text, ((i, i + 1) for i, c in enumerate(text) if c == sign), "MergedWithNext", False)

    return run


def _bert(_: Part) -> PreTokenizer:
    def run(text: str, is_first: bool) -> list[str]:
        words = _by_character(is_space, "Removed")(text, is_first)
        return [piece for word in words for piece in _by_character(is_punctuation, "Isolated")(word, False)]

    return run


def _delimiter(part: Part) -> PreTokenizer:
    sign = value(part, "delimiter", str)
    return _by_character(lambda c: c == sign, "Removed")


def _digits(part: Part) -> PreTokenizer:
    return _by_character(is_number, "Isolated" if value(part, "individual_digits", bool, False) else "Contiguous")


def _whitespace(_: Part) -> PreTokenizer:
    pattern = known_pattern(r"\w+|[^\w\s]+")
    assert pattern is not None
    return _by_pattern(pattern, "Removed", True)


_TABLE: dict[str, Callable[[Part], PreTokenizer]] = {
    "ByteLevel": _byte_level, "Whitespace": _whitespace, "BertPreTokenizer": _bert, "Metaspace": _metaspace,
    "WhitespaceSplit": lambda _: _by_character(is_space, "Removed"), "Digits": _digits, "Split": _split,
    "Punctuation": lambda part: _by_character(is_punctuation, _behavior(part, "Isolated")),
    "CharDelimiterSplit": _delimiter,
}  # fmt: skip
