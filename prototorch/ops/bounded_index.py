"""The check of indices as an op, for bounds that the op that reads them does not know; the count of those outside."""

from __future__ import annotations

from functools import reduce
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import add, cast, greater_equal, less, logical_or, where
from prototorch.ops.facts import Attrs, Dependences, IndexBounds, Specs, elementwise_batched, no_flops
from prototorch.ops.reduce import sum_
from prototorch.spec import Spec


class BoundedIndex(Op):
    """``bounded_index(indices, size=, message=, low=, wraps=)``: indices that must lie in low .. size - 1, as they are.

    wraps: negative ones count from the end; the result counts from 0. message: of the error
    for an index outside, with ``{}`` in its place. Most ops that read indices know their bounds (`Op.index_bounds`);
    this one is for negative indices, for indices that become positions of a flat array, and for a function's own words.
    """

    derivatives = (None,)
    flops = no_flops
    decompose_without_kernel = True

    def infer_spec(self, indices: Spec, size: int, message: str, low: int = 0, wraps: bool = False) -> Spec:
        if indices.is_float or indices.dtype == "bool":
            raise self.shape_error(f"expected integer indices, got {indices.dtype}")
        return indices

    def decompose(self, indices: Any, size: int, message: str, low: int = 0, wraps: bool = False) -> Any:
        return where(less(indices, 0), indices + size, indices) if wraps else indices

    def reference(self, xp: Any, indices: Any, size: int, message: str, low: int = 0, wraps: bool = False) -> Any:
        return xp.where(indices < 0, indices + size, indices) if wraps else xp.asarray(indices, copy=True)

    def index_bounds(self, ins: Specs, attrs: Attrs) -> IndexBounds:
        return {0: (attrs.get("low", 0), attrs["size"])}

    def index_limit(self, ins: Specs, attrs: Attrs) -> int | None:
        return attrs["size"] if attrs.get("wraps") else None

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool | None:
        return elementwise_batched(ins, outs, dependences)


class CountOutside(Op):
    """``count_outside(*indices, bounds=)``: how many elements of all arrays of integers are below the first, or not
    below the second of the pair of bounds of their array; int32, a scalar."""

    decompose_without_kernel = True

    def infer_spec(self, *indices: Spec, bounds: tuple[tuple[int, int], ...]) -> Spec:
        if len(indices) != len(bounds):
            raise self.shape_error(f"expected a pair of bounds for each of {len(indices)} arrays, got {len(bounds)}")
        return Spec((), "int32")

    def decompose(self, *indices: Any, bounds: tuple[tuple[int, int], ...]) -> Any:
        counts = [
            sum_(cast(logical_or(less(i, low), greater_equal(i, high)), dtype="int32"), axis=None)
            for i, (low, high) in zip(indices, bounds, strict=True)
        ]
        return reduce(add, counts)

    def reference(self, xp: Any, *indices: Any, bounds: tuple[tuple[int, int], ...]) -> Any:
        total = xp.asarray(0, dtype=xp.int32)
        for i, (low, high) in zip(indices, bounds, strict=True):
            total = total + xp.sum(xp.astype((i < low) | (i >= high), xp.int32), dtype=xp.int32)
        return total

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return sum(i.size for i in ins)

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool | None:
        return False


bounded_index, count_outside = BoundedIndex(), CountOutside()
