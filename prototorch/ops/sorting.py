"""Sorting along the last axis, and looking up positions in sorted elements."""

from __future__ import annotations

from math import log2
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.facts import Attrs, Dependences, Specs, flops_per_input, last_axis_batched
from prototorch.ops.indexing import scatter_add_along_axis
from prototorch.spec import Spec


class Sort(Op):
    """The elements in order along the last axis, and the indices (int64) they come from: values, indices.

    Equal elements keep their order, also with ``descending=True``. NaN counts as the largest. x has at least one axis.
    """

    derivatives = (
        lambda g, y, x, descending=False: (
            None if g[0] is None else scatter_add_along_axis(g[0], y[1], size=x.shape[-1])
        ),
    )
    preserves_batch = last_axis_batched

    def infer_spec(self, x: Spec, descending: bool = False) -> tuple[Spec, Spec]:
        if not x.ndim:
            raise self.shape_error("expected at least one axis")
        return Spec(x.shape, x.dtype), Spec(x.shape, "int64")

    def index_limit(self, ins: Specs, attrs: Attrs) -> int | None:
        return ins[0].shape[-1] if ins[0].is_float else None

    def reference(self, xp: Any, x: Any, descending: bool = False) -> tuple[Any, Any]:
        keys = xp.astype(x, xp.uint8) if x.dtype == xp.bool else x
        if descending:  # the stable order of the reversed elements, reversed: equal ones keep their order
            order = x.shape[-1] - 1 - xp.flip(xp.argsort(xp.flip(keys, axis=-1), axis=-1, stable=True), axis=-1)
        else:
            order = xp.argsort(keys, axis=-1, stable=True)
        order = xp.astype(order, xp.int64)
        return xp.take_along_axis(x, order, axis=-1), order

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return int(ins[0].size * log2(max(ins[0].shape[-1], 2)))


class SearchSorted(Op):
    """For each value the number of sorted elements before it, int64: where it can be inserted so that they stay sorted.

    sorted_elements: [n], or [..., n] with the leading shape of the values [..., k]. side: "left" counts the elements
    smaller than the value, "right" those that are equal as well. NaN counts as larger than all others.
    """

    name = "searchsorted"
    derivatives = (None, None)

    def infer_spec(self, sorted_elements: Spec, values: Spec, side: str = "left") -> Spec:
        if side not in ("left", "right"):
            raise self.shape_error(f"side must be 'left' or 'right', got {side!r}")
        if not sorted_elements.ndim:
            raise self.shape_error("expected sorted elements along at least one axis")
        if sorted_elements.ndim > 1 and sorted_elements.shape[:-1] != values.shape[:-1]:
            raise self.shape_error(
                f"leading shapes of the sorted elements {list(sorted_elements.shape)} and of the values "
                f"{list(values.shape)} differ"
            )
        if sorted_elements.dtype != values.dtype:
            raise self.shape_error(
                f"expected two inputs of the same dtype, got {sorted_elements.dtype} and {values.dtype}"
            )
        return Spec(values.shape, "int64")

    def reference(self, xp: Any, sorted_elements: Any, values: Any, side: str = "left") -> Any:
        elements, targets = xp.expand_dims(sorted_elements, axis=-2), xp.expand_dims(values, axis=-1)
        if sorted_elements.ndim == 1:
            elements = xp.reshape(sorted_elements, (1,) * values.ndim + sorted_elements.shape)
        if side == "left":
            before = (elements < targets) | ((targets != targets) & (elements == elements))
        else:
            before = ~((elements > targets) | ((elements != elements) & (targets == targets)))
        return xp.sum(xp.astype(before, xp.int64), axis=-1)

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return int(outs[0].size * log2(max(ins[0].shape[-1], 2)))

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        return ins[0].ndim > 1 and last_axis_batched(self, ins, outs, attrs, dependences)


class RunningExtremum(Op):
    """The extremum of all elements up to each one along the last axis, and its index (int64): values, indices.

    Of equal elements the last one counts. A NaN stays to the end.
    """

    is_maximum = True
    flops = flops_per_input
    preserves_batch = last_axis_batched
    derivatives = (lambda g, y, x: None if g[0] is None else scatter_add_along_axis(g[0], y[1], size=x.shape[-1]),)

    def infer_spec(self, x: Spec) -> tuple[Spec, Spec]:
        if not x.ndim:
            raise self.shape_error("expected at least one axis")
        return Spec(x.shape, x.dtype), Spec(x.shape, "int64")

    def reference(self, xp: Any, x: Any) -> tuple[Any, Any]:
        n = x.shape[-1]
        values, indices = xp.asarray(x, copy=True), xp.zeros(x.shape, dtype=xp.int64)
        keys = xp.astype(x, xp.uint8) if x.dtype == xp.bool else x
        for i in range(1, n):
            best = xp.take_along_axis(keys, indices[..., i - 1 : i], axis=-1)
            new = keys[..., i : i + 1]
            passes = (new >= best if self.is_maximum else new <= best) & ~(best != best)
            passes = passes | (new != new)
            indices[..., i : i + 1] = xp.where(passes, xp.full_like(indices[..., :1], i), indices[..., i - 1 : i])
        if n:
            values = xp.take_along_axis(x, indices, axis=-1)
        return values, indices


class Cummax(RunningExtremum):
    """The running maximum and its index."""


class Cummin(RunningExtremum):
    """The running minimum and its index."""

    is_maximum = False


sort, searchsorted, cummax, cummin = Sort(), SearchSorted(), Cummax(), Cummin()
