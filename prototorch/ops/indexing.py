"""Ops that look elements up by an index."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.ops.core import Op, resolve_dtype
from prototorch.ops.facts import (
    BATCHED,
    Attrs,
    Dependences,
    Specs,
    axis_batched,
    flops_per_input,
    last_axis_batched,
    lookup_bytes,
    no_flops,
    only_first_batched,
)
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec


class Take(Op):
    """Rows of a table: ``take(table, indices)``, table [rows, ...], indices [...] of an integer type.

    Gives [*indices.shape, *table.shape[1:]]. An index outside the table (below 0 too) gives a row of NaN, or of 0 where
    the elements are whole numbers: no other memory is read, and the mistake shows in the loss. Indices that come from
    data are checked before that (`data.binding`).
    """

    derivatives = (lambda g, y, table, indices: embedding_grad(g, indices, rows=table.shape[0]), None)
    flops = no_flops
    bytes_moved = lookup_bytes

    def infer_spec(self, table: Spec, indices: Spec) -> Spec:
        if indices.is_float or indices.dtype == "bool":
            raise self.shape_error(f"wants whole numbers as indices, not {indices.dtype}")
        if table.ndim < 1:
            raise self.shape_error("wants a table of at least one dimension")
        return Spec((*indices.shape, *table.shape[1:]), table.dtype)

    def reference(self, xp: Any, table: Any, indices: Any) -> Any:
        places, rows = xp.reshape(indices, (-1,)), table.shape[0]
        missing = xp.asarray(missing_row_value(str(table.dtype).rsplit(".", 1)[-1]), dtype=table.dtype)
        if not rows:
            table, rows = xp.zeros((1, *table.shape[1:]), dtype=table.dtype), 0
        inside = (places >= 0) & (places < rows)
        flat = xp.take(table, xp.where(inside, places, xp.zeros_like(places)), axis=0)
        flat = xp.where(xp.reshape(inside, (-1, *[1] * (table.ndim - 1))), flat, missing)
        return xp.reshape(flat, (*indices.shape, *table.shape[1:]))

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        return dependences[0] is not BATCHED


def missing_row_value(dtype: str) -> float:
    """What `take` gives for a row that is not there: NaN, or 0 for a type that has none."""
    return float("nan") if dtype.startswith("float") else 0


class EmbeddingGrad(Op):
    """The adjoint of `take`: a table of zeros with ``rows`` rows, each value added at its index.

    values [*indices.shape, ...], indices [...]. Values of one index are added in their order; a value whose index lies
    outside the table is left out.
    """

    derivatives = (lambda g, y, values, indices, rows: take(g, indices), None)
    flops = flops_per_input

    def infer_spec(self, values: Spec, indices: Spec, rows: int) -> Spec:
        if values.shape[: indices.ndim] != indices.shape:
            raise self.shape_error(
                f"values {list(values.shape)} do not begin with the indices' shape {list(indices.shape)}"
            )
        return Spec((rows, *values.shape[indices.ndim :]), values.dtype)

    def reference(self, xp: Any, values: Any, indices: Any, rows: int) -> Any:
        rest = values.shape[indices.ndim :]
        flat, places = xp.reshape(values, (-1, *rest)), xp.astype(xp.reshape(indices, (-1,)), xp.int64)
        inside = (places >= 0) & (places < rows)
        elsewhere = xp.asarray(rows, dtype=xp.int64)  # a row more, which is cut off: no sum depends on a choice
        out = xp.zeros((rows + 1, *rest), dtype=values.dtype)
        return scatter_add(xp, out, xp.where(inside, places, elsewhere), flat)[:rows, ...]


def scatter_add(xp: Any, out: Any, places: Any, values: Any) -> Any:
    """Add each value to the row of ``out`` that it belongs to, in their order, and give back ``out``.

    places [n] of a whole type, values [n, ...]. NumPy and CuPy have a function for it; the standard has none.
    """
    if hasattr(xp, "add") and hasattr(xp.add, "at"):
        xp.add.at(out, places, values)
        return out
    for i in range(int(places.shape[0])):
        row = int(places[i])
        out[row, ...] = out[row, ...] + values[i, ...]
    return out


class TakeAlongAxis(Op):
    """Elements along the last axis: x [..., n], indices [..., k] with the same leading shape; gives [..., k]."""

    derivatives = (lambda g, y, x, indices: scatter_add_along_axis(g, indices, size=x.shape[-1]), None)
    flops = no_flops
    bytes_moved = lookup_bytes
    preserves_batch = last_axis_batched

    def infer_spec(self, x: Spec, indices: Spec) -> Spec:
        if x.shape[:-1] != indices.shape[:-1]:
            raise self.shape_error(f"leading shapes of {list(x.shape)} and {list(indices.shape)} differ")
        return Spec(indices.shape, x.dtype)

    def reference(self, xp: Any, x: Any, indices: Any) -> Any:
        return xp.take_along_axis(x, xp.astype(indices, xp.int64), axis=-1)


class ScatterAddAlongAxis(Op):
    """The adjoint of `take_along_axis`: zeros [..., size] with each value added at its index along the last axis."""

    derivatives = (lambda g, y, values, indices, size: take_along_axis(g, indices), None)
    flops = flops_per_input
    preserves_batch = last_axis_batched

    def infer_spec(self, values: Spec, indices: Spec, size: int) -> Spec:
        if values.shape != indices.shape:
            raise self.shape_error(f"values {list(values.shape)} and indices {list(indices.shape)} differ in shape")
        return Spec((*values.shape[:-1], size), values.dtype)

    def reference(self, xp: Any, values: Any, indices: Any, size: int) -> Any:
        many = prod(indices.shape[:-1])
        rows = xp.astype(xp.reshape(indices, (many, indices.shape[-1])), xp.int64)
        begins = xp.reshape(xp.arange(many, dtype=xp.int64) * size, (many, 1))
        out = xp.zeros((many * size,), dtype=values.dtype)
        out = scatter_add(xp, out, xp.reshape(rows + begins, (-1,)), xp.reshape(values, (-1,)))
        return xp.reshape(out, (*values.shape[:-1], size))


class OneHot(Op):
    """Indices [...] as rows [..., classes] with a 1 at the index; all 0 for an index outside."""

    derivatives = (None,)
    flops = no_flops
    preserves_batch = only_first_batched

    def infer_spec(self, indices: Spec, classes: int, dtype: str = "float32") -> Spec:
        if indices.is_float:
            raise self.shape_error(f"wants whole numbers, not {indices.dtype}")
        return Spec((*indices.shape, classes), dtype)

    def reference(self, xp: Any, indices: Any, classes: int, dtype: str = "float32") -> Any:
        hit = xp.reshape(xp.astype(indices, xp.int64), (*indices.shape, 1)) == xp.arange(classes, dtype=xp.int64)
        return xp.astype(hit, resolve_dtype(xp, dtype))


class StaticGather(Op):
    """Fixed places along an axis: ``gather(x, indices=(2, 0, 0), axis=1)``; the indices are an attribute."""

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
    """The adjoint of `static_gather`: zeros of ``size`` along the axis, each slice added at its place."""

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
        for i, place in enumerate(indices):
            at, source = (*lead, slice(place, place + 1), ...), (*lead, slice(i, i + 1), ...)
            out[at] = out[at] + x[source]
        return out


class Iota(Op):
    """0, 1, ..., size - 1 as int32 (or another type)."""

    derivatives = ()
    flops = no_flops

    def infer_spec(self, size: int, dtype: str = "int32") -> Spec:
        return Spec((size,), dtype)

    def reference(self, xp: Any, size: int, dtype: str = "int32") -> Any:
        return xp.arange(size, dtype=resolve_dtype(xp, dtype))


class TopK(Op):
    """The k largest along the last axis, in falling order, and their indices (int32); among equals the first."""

    derivatives = (lambda g, y, x, k: None if g[0] is None else scatter_add_along_axis(g[0], y[1], size=x.shape[-1]),)
    flops = flops_per_input
    preserves_batch = last_axis_batched

    def infer_spec(self, x: Spec, k: int) -> tuple[Spec, Spec]:
        if not 1 <= k <= x.shape[-1]:
            raise self.shape_error(f"k is {k}, but there are {x.shape[-1]} elements")
        shape = (*x.shape[:-1], k)
        return Spec(shape, x.dtype), Spec(shape, "int32")

    def reference(self, xp: Any, x: Any, k: int) -> tuple[Any, Any]:
        order = xp.argsort(-x, axis=-1, stable=True)[..., :k]
        return xp.take_along_axis(x, order, axis=-1), xp.astype(order, xp.int32)


take, embedding_grad, take_along_axis, scatter_add_along_axis = (
    Take(),
    EmbeddingGrad(),
    TakeAlongAxis(),
    ScatterAddAlongAxis(),
)
one_hot, static_gather, static_scatter_add, iota, top_k = OneHot(), StaticGather(), StaticScatterAdd(), Iota(), TopK()
