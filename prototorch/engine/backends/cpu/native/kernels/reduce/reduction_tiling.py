"""How a reduction over some axes of memory is split into pieces; see `reduce.py`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

__all__ = ["PIECE_ELEMENTS", "ReductionAxis", "ReductionTiling", "merge_axes", "tile_reduction"]

#: elements of a piece, and results of a piece if each lane is a result
PIECE_ELEMENTS, BLOCK_COLUMNS = 1 << 15, 256


class ReductionAxis(NamedTuple):
    """An axis of memory: its size, its stride, and whether it is reduced."""

    size: int
    stride: int
    is_reduced: bool


class ReductionTiling(NamedTuple):
    """How a reduction is done: the kernels' only parameter besides the operation and the dtypes.

    ``outer`` are kept axes, ``inner`` the reduced ones except ``split_axis``, which is split into ``num_parts`` of
    ``part_length``; ``num_columns`` results are contiguous (1: the last axis is reduced), ``block_columns`` of them in
    a piece.
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
        """The number of work items."""
        return prod(a.size for a in self.outer) * self.num_parts * -(-self.num_columns // self.block_columns)

    @property
    def item_elements(self) -> int:
        """Elements that a work item reads."""
        return self.part_length * prod(a.size for a in self.inner) * min(self.num_columns, self.block_columns)


def merge_axes(shape: Sequence[int], over: Sequence[int]) -> list[ReductionAxis]:
    """Return the axes of row-major memory, adjacent ones of one kind merged, without those of size 1."""
    merged_axes: list[ReductionAxis] = []
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] != 1:
            is_reduced = axis in over
            if merged_axes and merged_axes[0].is_reduced == is_reduced:
                merged_axes[0] = ReductionAxis(merged_axes[0].size * shape[axis], merged_axes[0].stride, is_reduced)
            else:
                merged_axes.insert(0, ReductionAxis(shape[axis], stride, is_reduced))
        stride *= shape[axis]
    return merged_axes


def tile_reduction(axes: Sequence[ReductionAxis]) -> ReductionTiling:
    """Return the tiling of a reduction over merged axes."""
    kept_axes, reduced_axes = [a for a in axes if not a.is_reduced], [a for a in axes if a.is_reduced]
    width = kept_axes.pop().size if kept_axes and not axes[-1].is_reduced else 1
    tiled_axis = max(reduced_axes, key=lambda a: a.size, default=ReductionAxis(1, 1, True))
    inner = tuple(a for a in reduced_axes if a is not tiled_axis)
    outer = prod(a.size for a in kept_axes)
    is_parallel = outer * -(-width // BLOCK_COLUMNS) >= 16  # enough pieces without a split
    block = BLOCK_COLUMNS if is_parallel or width <= BLOCK_COLUMNS else width
    depth = prod(a.size for a in inner) * min(width, block)
    longest = PIECE_ELEMENTS * (8 if is_parallel else 1)
    length = (
        min(max(longest // depth, 1), tiled_axis.size)
        if tiled_axis.size * depth * (1 if is_parallel else outer) > 2 * PIECE_ELEMENTS
        else tiled_axis.size
    )
    return ReductionTiling(
        tuple(kept_axes), inner, tiled_axis, -(-tiled_axis.size // length), length, width, min(block, width)
    )
