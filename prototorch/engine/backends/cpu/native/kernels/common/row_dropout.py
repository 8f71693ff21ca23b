"""Dropout of a row while it is in scratch memory, by the bits that `random.dropout` has for the whole array."""

from __future__ import annotations

from typing import Any

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.random import draw_words, is_at_least
from prototorch.engine.backends.cpu.native.kernels.common.types import Index

_EACH, _BLOCK_BYTES = 16, 32  # elements and bytes of one block of the generator


def row_bytes(length: int) -> int:
    """Scratch memory for the random words of a row of this length, which may begin within a block; two blocks more are
    read by the last vector."""
    return (-(-length // _EACH) + 3) * _BLOCK_BYTES


class RowDropout:
    """The factors of the elements of one row at a time: 0, or 1 / (1 - rate)."""

    def __init__(self, k: KernelBuilder, key: Pointer, site: Int64, words: Pointer, threshold: int, scale: float):
        self.k, self.key, self.site, self.words = k, key, site, words.as_type("uint64")
        self.threshold, self.scale = threshold, k.num(scale).splat(k.lanes)
        self._bits: Any = None

    def draw(self, first: Int64, count: Index) -> None:
        """Draw for the row whose first element has this index in the whole array."""
        start = first % _EACH
        draw_words(self.k, self.key, self.site, first // _EACH, (start + count + (_EACH - 1)) // _EACH, self.words)
        self._bits = self.words.as_type("uint16") + start

    def factors(self, i: Int64) -> Num:
        """The factors of the row's elements from i on, one vector."""
        k = self.k
        return k.select(is_at_least(k, self._bits.load(i, k.lanes), self.threshold), self.scale, k.zero(k.lanes))


def row_dropout(
    k: KernelBuilder, dropout: tuple[int, float] | None, key: int, words: Pointer, outputs: int = 1
) -> RowDropout | None:
    """The dropout of a kernel whose argument ``key`` is the random key and whose last one, behind its outputs, is the
    site. None without dropout."""
    if dropout is None:
        return None
    return RowDropout(k, k.pointer(key, "uint64"), k.argument(key + 1 + outputs), words, *dropout)
