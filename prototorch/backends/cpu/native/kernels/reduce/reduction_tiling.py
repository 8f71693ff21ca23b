"""How a reduction over some axes of memory is cut into pieces; see `reduce.py`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

#: elements of a piece, and results of a piece where each lane has its own
PIECE_ELEMENTS, BLOCK_COLUMNS = 1 << 15, 256


class ReductionAxis(NamedTuple):
    """An axis of memory: its size, the distance of its elements, and whether it is reduced."""

    size: int
    stride: int
    reduced: bool


class ReductionTiling(NamedTuple):
    """How a reduction is done: the kernels' only parameter besides the kind of reduction and the types.

    ``outer`` are kept axes, ``inner`` the reduced ones but for ``cut``, which is cut into ``parts`` of ``length``;
    ``width`` results lie side by side (1: the last axis is reduced), ``block`` of them in a piece.
    """

    outer: tuple[ReductionAxis, ...]
    inner: tuple[ReductionAxis, ...]
    split_axis: ReductionAxis
    num_parts: int
    part_length: int
    num_columns: int
    block_columns: int

    @property
    def num_results(self) -> int:
        """Elements of the result."""
        return prod(a.size for a in self.outer) * self.num_columns

    @property
    def num_items(self) -> int:
        """Pieces of work, were each done alone."""
        return prod(a.size for a in self.outer) * self.num_parts * -(-self.num_columns // self.block_columns)

    @property
    def item_elements(self) -> int:
        """Elements that an item reads."""
        return self.part_length * prod(a.size for a in self.inner) * min(self.num_columns, self.block_columns)


def merge_axes(shape: Sequence[int], over: Sequence[int]) -> list[ReductionAxis]:
    """The axes of row-major memory, neighbours of one kind taken together, without those of size 1."""
    found: list[ReductionAxis] = []
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] != 1:
            reduced = axis in over
            if found and found[0].reduced == reduced:
                found[0] = ReductionAxis(found[0].size * shape[axis], found[0].stride, reduced)
            else:
                found.insert(0, ReductionAxis(shape[axis], stride, reduced))
        stride *= shape[axis]
    return found


def tile_reduction(found: Sequence[ReductionAxis]) -> ReductionTiling:
    """The plan of a reduction over merged axes."""
    kept, taken = [a for a in found if not a.reduced], [a for a in found if a.reduced]
    width = kept.pop().size if kept and not found[-1].reduced else 1
    cut = max(taken, key=lambda a: a.size, default=ReductionAxis(1, 1, True))
    inner = tuple(a for a in taken if a is not cut)
    outer = prod(a.size for a in kept)
    many = outer * -(-width // BLOCK_COLUMNS) >= 16  # pieces enough without a cut
    block = BLOCK_COLUMNS if many or width <= BLOCK_COLUMNS else width
    depth = prod(a.size for a in inner) * min(width, block)
    longest = PIECE_ELEMENTS * (8 if many else 1)
    length = (
        min(max(longest // depth, 1), cut.size)
        if cut.size * depth * (1 if many else outer) > 2 * PIECE_ELEMENTS
        else cut.size
    )
    return ReductionTiling(tuple(kept), inner, cut, -(-cut.size // length), length, width, min(block, width))
