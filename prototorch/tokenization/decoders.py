"""Decoders: from tokens back to text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from prototorch.tokenization.fields import Part, make_part, value
from prototorch.tokenization.normalizers import Replacement, replacement
from prototorch.tokenization.pre_tokenizers import byte_characters
from prototorch.tokenization.size_limit import SizeLimit

__all__ = ["Decoder", "decode", "read_decoders"]

Decoder = Callable[[list[str]], list[str]] | Replacement  # of all tokens, or of each
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_CLEAN = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
          (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"))  # fmt: skip


def read_decoders(part: Any) -> list[Decoder]:
    """The decoders of a file, in order. Raises DataError for those that are not supported."""
    return make_part(part, "decoder", _TABLE, "decoders")


def decode(steps: Sequence[Decoder], tokens: list[str]) -> list[str]:
    """The tokens after all steps. Raises DataError, before the memory is taken, where they become much longer."""
    limit = SizeLimit("decoders", sum(map(len, tokens)) + len(tokens))
    for step in steps:
        if isinstance(step, Replacement):
            limit.check(sum(map(step.size, tokens)))
            tokens = [step(token) for token in tokens]
        else:
            tokens = step(tokens)
            limit.check(sum(map(len, tokens)))
    return tokens


def _byte_level(_: Part) -> Decoder:
    table = {char: byte for byte, char in enumerate(byte_characters())}

    def run(tokens: list[str]) -> list[str]:
        data = bytearray()
        for token in tokens:
            is_bytes = all(char in table for char in token)
            data += bytes(table[char] for char in token) if is_bytes else token.encode("utf-8", "replace")
        return [data.decode("utf-8", "replace")]

    return run


def _word_piece(part: Part) -> Decoder:
    prefix, cleans = value(part, "prefix", str, "##"), value(part, "cleanup", bool, True)

    def run(tokens: list[str]) -> list[str]:
        out = []
        for at, token in enumerate(tokens):
            if at:
                token = token.removeprefix(prefix) if token.startswith(prefix) else " " + token
            for old, new in _CLEAN if cleans else ():
                token = token.replace(old, new)
            out.append(token)
        return out

    return run


def _metaspace(part: Part) -> Decoder:
    sign = value(part, "replacement", str, "▁")
    adds = value(part, "prepend_scheme", str, "always") != "never" and value(part, "add_prefix_space", bool, True)

    def run(tokens: list[str]) -> list[str]:
        spaced = [token.replace(sign, " ") for token in tokens]
        return [spaced[0].removeprefix(" "), *spaced[1:]] if adds and spaced else spaced

    return run


def _suffix(part: Part) -> Decoder:
    suffix = value(part, "suffix", str, "</w>")
    return lambda tokens: [
        token.replace(suffix, "" if at == len(tokens) - 1 else " ") if suffix else token
        for at, token in enumerate(tokens)
    ]


def _byte_fallback(_: Part) -> Decoder:
    def run(tokens: list[str]) -> list[str]:
        out, data = list[str](), bytearray()

        def flush() -> None:
            if data:
                try:
                    out.append(data.decode("utf-8"))
                except UnicodeDecodeError:
                    out.extend(["\ufffd"] * len(data))
                data.clear()

        for token in tokens:
            match = _BYTE.fullmatch(token)
            if match is not None:
                data.append(int(match[1], 16))
                continue
            flush()
            out.append(token)
        flush()
        return out

    return run


def _strip(part: Part) -> Decoder:
    sign, start, stop = value(part, "content", str, " "), value(part, "start", int, 0), value(part, "stop", int, 0)

    def run(tokens: list[str]) -> list[str]:
        out, length = [], len(sign)
        for token in tokens if length else ():
            begin, end = 0, len(token)
            while begin < start * length and token.startswith(sign, begin):
                begin += length
            while len(token) - end < stop * length and token.endswith(sign, begin, end):
                end -= length
            out.append(token[begin:end])
        return out if length else tokens

    return run


_TABLE: dict[str, Callable[[Part], Decoder]] = {
    "ByteLevel": _byte_level, "WordPiece": _word_piece, "Metaspace": _metaspace, "BPEDecoder": _suffix,
    "ByteFallback": _byte_fallback, "Strip": _strip, "Replace": replacement,
    "Fuse": lambda _: lambda tokens: ["".join(tokens)],
}  # fmt: skip
