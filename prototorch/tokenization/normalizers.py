"""Normalizers: what is changed before a text is split."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prototorch.errors import DataError
from prototorch.tokenization.characters import is_control, is_space
from prototorch.tokenization.fields import Part, make_part, value
from prototorch.tokenization.size_limit import SizeLimit

__all__ = ["Normalizer", "Replacement", "normalize", "read_normalizers", "replacement"]

Normalizer = Callable[[str], str]
_CJK = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
        (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))  # fmt: skip


def read_normalizers(part: Any) -> list[Normalizer]:
    """The normalizers of a file, in order. Raises DataError for those that are not supported."""
    return make_part(part, "normalizer", _TABLE, "normalizers")


def normalize(steps: Sequence[Normalizer], text: str, limit: SizeLimit) -> str:
    """The text after all steps. Raises DataError, before the memory is taken, where it exceeds the limit."""
    for step in steps:
        limit.check(step.size(text) if isinstance(step, Replacement) else 0)
        text = step(text)
        limit.check(len(text))
    limit.take(len(text))
    return text


def _form(name: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> Callable[[Part], Normalizer]:
    return lambda _: lambda text: unicodedata.normalize(name, text)


def _lower(text: str) -> str:
    return "".join(c.lower() for c in text)  # of each character alone, without the final sigma


def _strip_marks(text: str) -> str:
    return "".join(c for c in text if not unicodedata.category(c).startswith("M"))


def _strip_accents(text: str) -> str:
    """Without nonspacing marks alone, as in BertNormalizer."""
    return "".join(c for c in text if unicodedata.category(c) != "Mn")


def _strip(part: Part) -> Normalizer:
    left, right = value(part, "strip_left", bool, True), value(part, "strip_right", bool, True)

    def run(text: str) -> str:
        start, end = 0, len(text)
        while left and start < end and is_space(text[start]):
            start += 1
        while right and end > start and is_space(text[end - 1]):
            end -= 1
        return text[start:end]

    return run


@dataclass(frozen=True)
class Replacement:
    """Puts one string in the place of another one, which is not empty."""

    old: str
    new: str

    def __call__(self, text: str) -> str:
        return text.replace(self.old, self.new)

    def size(self, text: str) -> int:
        """The number of characters that it makes of a text, found without making them."""
        return len(text) + text.count(self.old) * (len(self.new) - len(self.old))


def replacement(part: Part) -> Replacement:
    """The function of a Replace. Raises DataError for a regular expression."""
    pattern, content = value(part, "pattern", dict), value(part, "content", str, "")
    old = pattern.get("String")
    if not isinstance(old, str) or not old:
        raise DataError("tokenizer file: Replace with a regular expression is not supported, only with a string")
    return Replacement(old, content)


def _prepend(part: Part) -> Normalizer:
    prefix = value(part, "prepend", str)
    return lambda text: prefix + text if text else text


def _bert(part: Part) -> Normalizer:
    clean, chinese = value(part, "clean_text", bool, True), value(part, "handle_chinese_chars", bool, True)
    lower = value(part, "lowercase", bool, True)
    accents = value(part, "strip_accents", bool, lower)

    def run(text: str) -> str:
        if clean:
            printable = (c for c in text if c not in "\0\ufffd" and not is_control(c))
            text = "".join(" " if is_space(c) else c for c in printable)
        if chinese:
            text = "".join(f" {c} " if any(a <= ord(c) <= b for a, b in _CJK) else c for c in text)
        if accents:
            text = _strip_accents(unicodedata.normalize("NFD", text))
        return _lower(text) if lower else text

    return run


_TABLE: dict[str, Callable[[Part], Normalizer]] = {
    "NFC": _form("NFC"), "NFD": _form("NFD"), "NFKC": _form("NFKC"), "NFKD": _form("NFKD"),
    "Lowercase": lambda _: _lower, "StripAccents": lambda _: _strip_marks, "Strip": _strip,
    "Replace": replacement, "Prepend": _prepend, "BertNormalizer": _bert,
}  # fmt: skip
