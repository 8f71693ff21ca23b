"""The checks of values as ops, for bounds that the op that reads them does not know; the count of those outside."""

from __future__ import annotations

from functools import reduce
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import (
    add,
    cast,
    equal,
    greater_equal,
    less,
    less_equal,
    logical_not,
    logical_or,
    where,
)
from prototorch.ops.facts import (
    Attrs,
    Dependences,
    Specs,
    ValueBounds,
    ValueLimits,
    elementwise_batched,
    no_flops,
    positions,
)
from prototorch.ops.reduce import sum_
from prototorch.spec import Spec

Limit = float | None


class BoundedIndex(Op):
    """``bounded_index(indices, size=, message=, low=, wraps=)``: indices that must lie in low .. size - 1, as they are.

    wraps: negative ones count from the end; the result counts from 0. message: of the error
    for an index outside, with ``{}`` in its place. Most ops that read indices know their bounds (`Op.value_bounds`);
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

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return {0: positions(attrs["size"], attrs.get("low", 0))}

    def index_limit(self, ins: Specs, attrs: Attrs) -> int | None:
        return attrs["size"] if attrs.get("wraps") else None

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool | None:
        return elementwise_batched(ins, outs, dependences)


class BoundedValues(Op):
    """``bounded_values(x, message=, low=, high=, excludes_zero=)``: numbers that must lie in low .. high, both included
    (None: no limit), as they are. NaN lies outside. message: of the error, with ``{}`` in the place of one outside.

    For functions that take other values than their ops do: probabilities, variances, the first offset.
    """

    derivatives = (lambda g, y, x, **_: g,)
    flops = no_flops
    decompose_without_kernel = True

    def infer_spec(
        self, x: Spec, message: str, low: Limit = None, high: Limit = None, excludes_zero: bool = False
    ) -> Spec:
        return x

    def decompose(
        self, x: Any, message: str, low: Limit = None, high: Limit = None, excludes_zero: bool = False
    ) -> Any:
        return x

    def reference(
        self, xp: Any, x: Any, message: str, low: Limit = None, high: Limit = None, excludes_zero: bool = False
    ) -> Any:
        return xp.asarray(x, copy=True)

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return {0: ValueLimits(attrs.get("low"), attrs.get("high"), attrs.get("excludes_zero", False))}

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool | None:
        return elementwise_batched(ins, outs, dependences)


class CountOutside(Op):
    """``count_outside(*arrays, bounds=)``: the number of elements of all arrays outside of their array's `ValueLimits`;
    int32, a scalar."""

    decompose_without_kernel = True

    def infer_spec(self, *arrays: Spec, bounds: tuple[ValueLimits, ...]) -> Spec:
        if len(arrays) != len(bounds):
            raise self.shape_error(f"expected bounds for each of {len(arrays)} arrays, got {len(bounds)}")
        return Spec((), "int32")

    def decompose(self, *arrays: Any, bounds: tuple[ValueLimits, ...]) -> Any:
        counts = []
        for x, limits in zip(arrays, bounds, strict=True):
            (low, high), parts = limits[:2], []
            if str(x.dtype).startswith(("float", "bfloat")):  # NaN is not less than a limit
                parts += [logical_not(greater_equal(x, low))] if low is not None else []
                parts += [logical_not(less_equal(x, high))] if high is not None else []
            else:
                parts += [less(x, low)] if low is not None else []
                parts += [greater_equal(x, high + 1)] if high is not None else []
            parts += [equal(x, 0)] if limits.excludes_zero else []
            counts.append(sum_(cast(reduce(logical_or, parts), dtype="int32"), axis=None))
        return reduce(add, counts)

    def reference(self, xp: Any, *arrays: Any, bounds: tuple[ValueLimits, ...]) -> Any:
        total = xp.asarray(0, dtype=xp.int32)
        for x, limits in zip(arrays, bounds, strict=True):
            total = total + xp.sum(xp.astype(is_outside(x, limits), xp.int32), dtype=xp.int32)
        return total

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return sum(i.size for i in ins)

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool | None:
        return False


def is_outside(x: Any, limits: ValueLimits) -> Any:
    """Whether each element of an array of NumPy's kind lies outside of bounds."""
    outside = x != x if limits.low is None else ~(x >= limits.low)
    outside = outside if limits.high is None else outside | ~(x <= limits.high)
    return outside | (x == 0) if limits.excludes_zero else outside


bounded_index, bounded_values, count_outside = BoundedIndex(), BoundedValues(), CountOutside()
