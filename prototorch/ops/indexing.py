"""Indexed lookup (gather) and its adjoint (scatter-add)."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.ops.core import Op, resolve_dtype
from prototorch.ops.facts import (
    BATCHED,
    Attrs,
    Dependences,
    Specs,
    ValueBounds,
    axis_batched,
    flops_per_input,
    last_axis_batched,
    lookup_bytes,
    no_flops,
    only_first_batched,
    positions,
)
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec


class Take(Op):
    """Rows of a table: ``take(table, indices)``, table [rows, ...], indices [...] of an integer dtype.

    Returns [*indices.shape, *table.shape[1:]]. An index out of range, or a negative one, gives a row of NaN, or of 0
    for integer elements: no other memory is read, and the mistake shows in the loss. Indices that come from data are
    checked before that.
    """

    derivatives = (lambda g, y, table, indices: embedding_grad(g, indices, rows=table.shape[0]), None)
    flops = no_flops
    bytes_moved = lookup_bytes

    def infer_spec(self, table: Spec, indices: Spec) -> Spec:
        if indices.is_float or indices.dtype == "bool":
            raise self.shape_error(f"expected integer indices, got {indices.dtype}")
        if table.ndim < 1:
            raise self.shape_error("expected a table of at least one dimension")
        return Spec((*indices.shape, *table.shape[1:]), table.dtype)

    def reference(self, xp: Any, table: Any, indices: Any) -> Any:
        positions, rows = xp.reshape(indices, (-1,)), table.shape[0]
        missing = xp.asarray(missing_row_value(str(table.dtype).rsplit(".", 1)[-1]), dtype=table.dtype)
        if not rows:
            table, rows = xp.zeros((1, *table.shape[1:]), dtype=table.dtype), 0
        inside = (positions >= 0) & (positions < rows)
        flat = xp.take(table, xp.where(inside, positions, xp.zeros_like(positions)), axis=0)
        flat = xp.where(xp.reshape(inside, (-1, *[1] * (table.ndim - 1))), flat, missing)
        return xp.reshape(flat, (*indices.shape, *table.shape[1:]))

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return {1: positions(ins[0].shape[0])}

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        return dependences[0] is not BATCHED


def missing_row_value(dtype: str) -> float:
    """The value of a row that `take` does not find: NaN, or 0 for a dtype without NaN."""
    return float("nan") if dtype.startswith("float") else 0


class EmbeddingGrad(Op):
    """The adjoint of `take`: a table of zeros with ``rows`` rows, each value added at its index.

    values [*indices.shape, ...], indices [...]. Values of the same index are added in order; a value whose index is out
    of range is dropped.
    """

    derivatives = (lambda g, y, values, indices, rows: take(g, indices), None)
    flops = flops_per_input

    def infer_spec(self, values: Spec, indices: Spec, rows: int) -> Spec:
        if values.shape[: indices.ndim] != indices.shape:
            raise self.shape_error(
                f"the shape of the values, {list(values.shape)}, must begin with that of the indices, "
                f"{list(indices.shape)}"
            )
        return Spec((rows, *values.shape[indices.ndim :]), values.dtype)

    def reference(self, xp: Any, values: Any, indices: Any, rows: int) -> Any:
        rest = values.shape[indices.ndim :]
        flat, positions = xp.reshape(values, (-1, *rest)), xp.astype(xp.reshape(indices, (-1,)), xp.int64)
        inside = (positions >= 0) & (positions < rows)
        extra_row = xp.asarray(rows, dtype=xp.int64)  # one extra row, which is cut off: no sum depends on a select
        out = xp.zeros((rows + 1, *rest), dtype=values.dtype)
        return scatter_add(xp, out, xp.where(inside, positions, extra_row), flat)[:rows, ...]


def scatter_add(xp: Any, out: Any, indices: Any, values: Any) -> Any:
    """Add each value to the row of ``out`` with its index, in order. Returns ``out``; duplicate indices add.

    indices [n] of an integer dtype, values [n, ...]. NumPy and CuPy have a function for it; the array API has none.
    """
    if hasattr(xp, "add") and hasattr(xp.add, "at"):
        xp.add.at(out, indices, values)
        return out
    for i in range(int(indices.shape[0])):
        row = int(indices[i])
        out[row, ...] = out[row, ...] + values[i, ...]
    return out


class TakeAlongAxis(Op):
    """Elements along the last axis: x [..., n], indices [..., k] with the same leading shape; gives [..., k].

    No other memory is read for an index out of range: where nothing checks it (`Op.value_bounds`), negative ones count
    from the end, and others give NaN, or 0 for integer elements."""

    derivatives = (lambda g, y, x, indices: scatter_add_along_axis(g, indices, size=x.shape[-1]), None)
    flops = no_flops
    bytes_moved = lookup_bytes
    preserves_batch = last_axis_batched

    def infer_spec(self, x: Spec, indices: Spec) -> Spec:
        if x.shape[:-1] != indices.shape[:-1]:
            raise self.shape_error(f"leading shapes of {list(x.shape)} and {list(indices.shape)} differ")
        return Spec(indices.shape, x.dtype)

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return {1: positions(ins[0].shape[-1])}

    def reference(self, xp: Any, x: Any, indices: Any) -> Any:
        positions, size = xp.astype(indices, xp.int64), x.shape[-1]
        if not size or not indices.size:
            return xp.full(indices.shape, missing_row_value(str(x.dtype).rsplit(".", 1)[-1]), dtype=x.dtype)
        positions = xp.where(positions < 0, positions + size, positions)
        inside = (positions >= 0) & (positions < size)
        values = xp.take_along_axis(x, xp.where(inside, positions, xp.zeros_like(positions)), axis=-1)
        missing = xp.asarray(missing_row_value(str(x.dtype).rsplit(".", 1)[-1]), dtype=x.dtype)
        return xp.where(inside, values, missing)


class ScatterAddAlongAxis(Op):
    """The adjoint of `take_along_axis`: zeros [..., size] with each value added at its index along the last
    axis. Duplicate indices add. Negative ones count from the end; values at others out of range are dropped."""

    derivatives = (lambda g, y, values, indices, size: take_along_axis(g, indices), None)
    flops = flops_per_input
    preserves_batch = last_axis_batched

    def infer_spec(self, values: Spec, indices: Spec, size: int) -> Spec:
        if values.shape != indices.shape:
            raise self.shape_error(f"values {list(values.shape)} and indices {list(indices.shape)} differ in shape")
        return Spec((*values.shape[:-1], size), values.dtype)

    def reference(self, xp: Any, values: Any, indices: Any, size: int) -> Any:
        num_rows = prod(indices.shape[:-1])
        rows = xp.astype(xp.reshape(indices, (num_rows, indices.shape[-1])), xp.int64)
        row_starts = xp.reshape(xp.arange(num_rows, dtype=xp.int64) * size, (num_rows, 1))
        rows = xp.where(rows < 0, rows + size, rows)
        extra = xp.asarray(num_rows * size, dtype=xp.int64)  # one extra element, which is cut off
        positions = xp.where((rows >= 0) & (rows < size), rows + row_starts, extra)
        out = xp.zeros((num_rows * size + 1,), dtype=values.dtype)
        out = scatter_add(xp, out, xp.reshape(positions, (-1,)), xp.reshape(values, (-1,)))
        return xp.reshape(out[:-1], (*values.shape[:-1], size))


class OneHot(Op):
    """Indices [...] as rows [..., classes] with a 1 at the index; all 0 for an index out of range."""

    derivatives = (None,)
    flops = no_flops
    preserves_batch = only_first_batched

    def infer_spec(self, indices: Spec, classes: int, dtype: str = "float32") -> Spec:
        if indices.is_float:
            raise self.shape_error(f"expected integers, got {indices.dtype}")
        return Spec((*indices.shape, classes), dtype)

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return {0: positions(attrs["classes"])}

    def reference(self, xp: Any, indices: Any, classes: int, dtype: str = "float32") -> Any:
        is_class = xp.reshape(xp.astype(indices, xp.int64), (*indices.shape, 1)) == xp.arange(classes, dtype=xp.int64)
        return xp.astype(is_class, resolve_dtype(xp, dtype))


class StaticGather(Op):
    """Elements at constant positions of an axis: ``static_gather(x, indices=(2, 0, 0), axis=1)``; the indices are an
    attribute."""

    derivatives = (
        lambda g, y, x, indices, axis: static_scatter_add(g, indices=indices, axis=axis, size=x.shape[axis]),
    )
    flops = no_flops
    bytes_moved = lookup_bytes
    preserves_batch = axis_batched()

    def infer_spec(self, x: Spec, indices: tuple[int, ...], axis: int) -> Spec:
        (axis,) = normalize_axes(axis, x.ndim, self)
        return Spec((*x.shape[:axis], len(indices), *x.shape[axis + 1 :]), x.dtype)

    def reference(self, xp: Any, x: Any, indices: tuple[int, ...], axis: int) -> Any:
        return xp.take(x, xp.asarray(indices, dtype=xp.int64), axis=axis)


class StaticScatterAdd(Op):
    """The adjoint of `static_gather`: zeros of ``size`` along the axis, each slice added at its index. Duplicate
    indices add."""

    derivatives = (lambda g, y, x, indices, axis, size: static_gather(g, indices=indices, axis=axis),)
    flops = no_flops
    preserves_batch = axis_batched()

    def infer_spec(self, x: Spec, indices: tuple[int, ...], axis: int, size: int) -> Spec:
        (axis,) = normalize_axes(axis, x.ndim, self)
        return Spec((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)

    def reference(self, xp: Any, x: Any, indices: tuple[int, ...], axis: int, size: int) -> Any:
        (axis,) = normalize_axes(axis, x.ndim)
        lead = (slice(None),) * axis
        out = xp.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), dtype=x.dtype)
        for i, position in enumerate(indices):
            at, source = (*lead, slice(position, position + 1), ...), (*lead, slice(i, i + 1), ...)
            out[at] = out[at] + x[source]
        return out


class Iota(Op):
    """0, 1, ..., size - 1 as int32 (or another dtype)."""

    derivatives = ()
    flops = no_flops

    def infer_spec(self, size: int, dtype: str = "int32") -> Spec:
        return Spec((size,), dtype)

    def index_limit(self, ins: Specs, attrs: Attrs) -> int | None:
        return int(attrs["size"])

    def reference(self, xp: Any, size: int, dtype: str = "int32") -> Any:
        return xp.arange(size, dtype=resolve_dtype(xp, dtype))


class TopK(Op):
    """The k largest along the last axis in descending order, and their indices (int32); the first of equal elements."""

    derivatives = (lambda g, y, x, k: None if g[0] is None else scatter_add_along_axis(g[0], y[1], size=x.shape[-1]),)
    flops = flops_per_input
    preserves_batch = last_axis_batched

    def infer_spec(self, x: Spec, k: int) -> tuple[Spec, Spec]:
        if not 1 <= k <= x.shape[-1]:
            raise self.shape_error(f"k must be between 1 and {x.shape[-1]}, got {k}")
        shape = (*x.shape[:-1], k)
        return Spec(shape, x.dtype), Spec(shape, "int32")

    def index_limit(self, ins: Specs, attrs: Attrs) -> int | None:
        return ins[0].shape[-1] if ins[0].is_float else None

    def reference(self, xp: Any, x: Any, k: int) -> tuple[Any, Any]:
        keys = xp.astype(x, xp.uint8) if x.dtype == xp.bool else x
        is_integer = str(keys.dtype).rsplit(".", 1)[-1].startswith(("int", "uint"))  # the negative of some wraps around
        order = xp.argsort(xp.bitwise_invert(keys) if is_integer else -keys, axis=-1, stable=True)[..., :k]
        return xp.take_along_axis(x, order, axis=-1), xp.astype(order, xp.int32)


take, embedding_grad, take_along_axis, scatter_add_along_axis = (
    Take(),
    EmbeddingGrad(),
    TakeAlongAxis(),
    ScatterAddAlongAxis(),
)
one_hot, static_gather, static_scatter_add, iota, top_k = OneHot(), StaticGather(), StaticScatterAdd(), Iota(), TopK()
