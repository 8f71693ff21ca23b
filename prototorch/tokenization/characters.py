"""Classes of characters by Unicode, and regular expressions made of them."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

__all__ = ["GPT2", "is_control", "is_number", "is_punctuation", "is_space", "is_word_character", "known_pattern"]

#: what \s means: Unicode's White_Space, which Python's \s exceeds by four control characters
SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
#: expressions that files may name: others could take time without bound
SAFE_PATTERNS = frozenset({_GPT2, _LLAMA3, _QWEN2, r"\s+", r"\d", r"\p{N}", r"\d+", r" ?[^\s]+", r"\w+|[^\w\s]+"})
GPT2 = _GPT2


@cache
def _class(prefix: str) -> str:
    """The characters of a general category ("L", "N") as the inside of a character class."""
    ranges, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(prefix)
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            ranges.append(f"{re.escape(chr(start))}-{re.escape(chr(code - 1))}")
            start = None
    return "".join(ranges)


def _word_class() -> str:
    r"""What \w means by Unicode: letters, marks, decimal digits, letter numbers, connectors, joiners."""
    circled = "\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"
    return "".join(map(_class, ("L", "M", "Nd", "Nl", "Pc"))) + circled + "\u200c\u200d"


@cache
def known_pattern(pattern: str) -> re.Pattern[str] | None:
    """One of the expressions that files may name, None for any other."""
    if pattern not in SAFE_PATTERNS:
        return None
    text = pattern.replace(r"\S", f"[^{SPACE}]")
    classes = {r"\p{L}": _class("L"), r"\p{N}": _class("N"), r"\d": _class("Nd"), r"\w": _word_class(), r"\s": SPACE}
    for name, inside in classes.items():
        text = _insert(text, name, inside)
    return re.compile(text)


def _insert(text: str, name: str, inside: str) -> str:
    """The expression with a class in the place of its name: inside of brackets as it is, else in brackets."""
    out, in_brackets, at = [], False, 0
    while at < len(text):
        if text.startswith(name, at):
            out.append(inside if in_brackets else f"[{inside}]")
            at += len(name)
            continue
        if text[at] == "\\":
            out.append(text[at : at + 2])
            at += 2
            continue
        in_brackets = (in_brackets or text[at] == "[") and text[at] != "]"
        out.append(text[at])
        at += 1
    return "".join(out)


def is_space(char: str) -> bool:
    """Whether a character is white space by Unicode."""
    return char in "\t\n\x0b\x0c\r\x85" or unicodedata.category(char) in ("Zs", "Zl", "Zp")


def is_punctuation(char: str) -> bool:
    """Whether a character is punctuation: ASCII's, or by Unicode."""
    code = ord(char)
    ascii_sign = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_sign or unicodedata.category(char).startswith("P")


@cache
def _word_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_word_class()}]")


def is_word_character(char: str) -> bool:
    r"""Whether ``\w`` matches a character."""
    return _word_pattern().match(char) is not None


def is_number(char: str) -> bool:
    """Whether a character is a number by Unicode: a digit, a letter number, or another one."""
    return unicodedata.category(char).startswith("N")


def is_control(char: str) -> bool:
    """Whether a character is a control character, and neither a tab nor the end of a line."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf", "Cn", "Co")
