"""String literals: protobuf's escapes, read and written."""

from __future__ import annotations

import re
import unicodedata

from prototorch.text.parse_context import Token

_ESCAPE = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\'\"?])|(?P<octal>[0-7]{1,3})|[xX](?P<hex>[0-9a-fA-F]{1,2})"
    r"|u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|(?P<bad>.?))"
)
_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


class InvalidEscapeError(ValueError):
    """An escape that means nothing; ``at`` is its offset in the raw string."""

    def __init__(self, message: str, at: int):
        super().__init__(message)
        self.at = at


def unescape(raw: str) -> str:
    """The string that a raw one (without its quotes) stands for; raises BadEscape."""
    if "\\" not in raw:
        return raw
    out = bytearray()
    at = 0
    for m in _ESCAPE.finditer(raw):
        out += raw[at : m.start()].encode()
        out += _decode_escape(m)
        at = m.end()
    out += raw[at:].encode()
    try:
        return out.decode()
    except UnicodeDecodeError:
        raise InvalidEscapeError("The escapes in this string do not make valid UTF-8.", 0) from None


def unescape_token(token: Token, start: int, end: int) -> str:
    """What a part of the token of a string stands for; a bad escape is reported, and stays as it is."""
    raw = token.value[start:end]
    try:
        return unescape(raw)
    except InvalidEscapeError as bad:
        at = token.start + start + bad.at
        token.ctx.report.add(str(bad), token.ctx.span(at, min(at + 2, token.end)))
        return raw


def _decode_escape(m: re.Match[str]) -> bytes:
    kind = m.lastgroup
    if kind == "simple":
        return _SIMPLE_ESCAPES[m["simple"]].encode()
    if kind == "octal" and int(m["octal"], 8) < 256:
        return bytes([int(m["octal"], 8)])
    if kind == "hex":
        return bytes([int(m["hex"], 16)])
    if kind in ("four", "eight"):
        code = int(m[kind], 16)
        if code < 0x110000 and not 0xD800 <= code < 0xE000:
            return chr(code).encode()
    hint = r" A backslash itself is written '\\'; in a path, '/' works on every system." if kind == "bad" else ""
    raise InvalidEscapeError(f"The escape '{m.group()}' means nothing.{hint}", m.start())


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def quote(text: str) -> str:
    """A string literal that reads back equal. ``${`` is written so that it is not filled in."""
    return '"' + escape(text) + '"'


def escape(text: str) -> str:
    """The inside of a literal."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text and "${" not in text:
        return text
    return "".join(map(_escape_character, text)).replace("${", "\\x24{")


def _escape_character(c: str) -> str:
    if c in _ESCAPES:
        return _ESCAPES[c]
    if c.isprintable() and unicodedata.category(c) != "Cf":
        return c
    code = ord(c)
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
