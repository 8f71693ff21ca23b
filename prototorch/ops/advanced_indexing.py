"""Indexing by arrays along several axes, and writing at such indices: NumPy's advanced indexing, PyTorch's `index_put`.

Indices count from 0; a negative one is out of range. An index out of range reads NaN (0 for integer elements), as in
`take`, and writes nothing; the gradient of such a value is NaN, so that the mistake shows.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import broadcast_shapes
from prototorch.ops.facts import (
    BATCHED,
    Attrs,
    Dependences,
    Specs,
    ValueBounds,
    lookup_bytes,
    no_flops,
    positions,
    total_bytes,
)
from prototorch.ops.indexing import scatter_add, take
from prototorch.ops.operators import OPS
from prototorch.ops.reduce import normalize_axes
from prototorch.ops.strided_array import array_module
from prototorch.spec import Spec

#: how `index_put` joins a value with the element at its index
REDUCTIONS = ("set", "sum", "prod", "amax", "amin")


def indexed_axis(axes: tuple[int, ...]) -> int:
    """Where the axes of the indices stand in the result: in place of adjacent axes, in front of separated ones."""
    adjacent = all(b == a + 1 for a, b in pairwise(axes))
    return axes[0] if adjacent else 0


def indexed_shape(x: Spec, indices: tuple[Spec, ...], axes: tuple[int, ...], op: Op) -> tuple[int, ...]:
    """The shape of the elements at the indices. Raises ShapeError for indices that do not fit."""
    if not axes or list(axes) != sorted(set(normalize_axes(axes, x.ndim, op))):
        raise op.shape_error(f"expected increasing axes between 0 and {x.ndim - 1}, got {list(axes)}")
    if len(indices) != len(axes):
        raise op.shape_error(f"expected one array of indices for each of {len(axes)} axes, got {len(indices)}")
    for i in indices:
        if i.is_float or i.dtype == "bool":
            raise op.shape_error(f"expected integer indices, got {i.dtype}")
    wide = broadcast_shapes(op, tuple(i.shape for i in indices))
    rest = [n for a, n in enumerate(x.shape) if a not in axes]
    at = indexed_axis(axes)
    return (*rest[:at], *wide, *rest[at:])


def front_order(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes that brings the indexed ones to the front."""
    return (*axes, *(a for a in range(ndim) if a not in axes))


def inverse_order(order: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes that undoes another one."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def result_order(ndim: int, num_index_axes: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes that takes [*indices, *rest] to the result's shape."""
    at, rest = indexed_axis(axes), ndim - len(axes)
    moved = range(num_index_axes, num_index_axes + rest)
    return (*moved[:at], *range(num_index_axes), *moved[at:])


def row_numbers(xp: Any, indices: Any, sizes: tuple[int, ...]) -> Any:
    """For each position of the broadcast indices the row of the flat indexed axes, int64; -1 for one out of range."""
    wide = xp.broadcast_arrays(*(xp.astype(i, xp.int64) for i in indices))
    rows, inside = xp.zeros_like(wide[0]), xp.full(wide[0].shape, True, dtype=xp.bool)
    for i, n in zip(wide, sizes, strict=True):
        rows, inside = rows * n + i, inside & (i >= 0) & (i < n)
    return xp.where(inside, rows, xp.full_like(rows, -1))


class AdvancedIndex(Op):
    """``advanced_index(x, *indices, axes=)``: the elements of x at arrays of indices, one array for each of the axes.

    The indices broadcast to one shape. Its axes take the place of the indexed axes where these are adjacent, and are
    the first ones of the result where they are not.
    """

    flops = no_flops
    bytes_moved = lookup_bytes

    def infer_spec(self, x: Spec, *indices: Spec, axes: tuple[int, ...]) -> Spec:
        return Spec(indexed_shape(x, indices, axes, self), x.dtype)

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return {k: positions(ins[0].shape[a]) for k, a in enumerate(attrs["axes"], 1)}

    def reference(self, xp: Any, x: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
        sizes = tuple(x.shape[a] for a in axes)
        rows = row_numbers(xp, indices, sizes)
        rest = tuple(n for a, n in enumerate(x.shape) if a not in axes)
        table = xp.reshape(xp.permute_dims(x, front_order(x.ndim, axes)), (prod(sizes), *rest))
        rows_of_x = take.reference(xp, table, rows)
        return xp.permute_dims(rows_of_x, result_order(x.ndim, rows.ndim, axes))

    def vjp(self, grads, outputs, inputs, needs, attrs):
        x, *indices = inputs
        zeros = OPS["full"](shape=tuple(x.shape), value=0, dtype=x.dtype)
        return [index_put(zeros, grads[0], *indices, axes=attrs["axes"], reduce="sum"), *[None] * len(indices)]

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        return _keeps_first_axis(attrs) and dependences[0] is BATCHED and BATCHED not in dependences[1:]


def _keeps_first_axis(attrs: Attrs) -> bool:
    return indexed_axis(attrs["axes"]) > 0


class IndexPut(Op):
    """``index_put(x, values, *indices, axes=, reduce=)``: x with values at the indices that `advanced_index` reads.

    values: of the shape that `advanced_index` returns. reduce: "set" replaces an element (of values with the same index
    the last one remains), "sum", "prod", "amax" and "amin" join it with all values of its index. With "set", the
    gradient of each value is that of its element, also where another value replaced it.
    """

    inplace = {0: 0}

    def infer_spec(self, x: Spec, values: Spec, *indices: Spec, axes: tuple[int, ...], reduce: str = "set") -> Spec:
        if reduce not in REDUCTIONS:
            raise self.shape_error(f"reduce must be one of {', '.join(REDUCTIONS)}, got {reduce!r}")
        shape = indexed_shape(x, indices, axes, self)
        if values.shape != shape:
            raise self.shape_error(f"expected values of shape {list(shape)}, got {list(values.shape)}")
        if values.dtype != x.dtype:
            raise self.shape_error(f"expected values of dtype {x.dtype}, got {values.dtype}")
        return Spec(x.shape, x.dtype)

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return {k: positions(ins[0].shape[a]) for k, a in enumerate(attrs["axes"], 2)}

    def reference(self, xp: Any, x: Any, values: Any, *indices: Any, axes: tuple[int, ...], reduce: str = "set") -> Any:
        sizes = tuple(x.shape[a] for a in axes)
        rows = row_numbers(xp, indices, sizes)
        order = front_order(x.ndim, axes)
        moved = xp.permute_dims(x, order)
        rest, count = moved.shape[len(axes) :], prod(sizes)
        values = xp.permute_dims(values, inverse_order(result_order(x.ndim, rows.ndim, axes)))
        values, rows = xp.reshape(values, (prod(rows.shape), *rest)), xp.reshape(rows, (-1,))
        extra = xp.zeros((1, *rest), dtype=x.dtype)  # the row of all indices out of range, which is cut off
        out = xp.concat([xp.reshape(moved, (count, *rest)), extra])
        write_rows(xp, out, xp.where(rows < 0, xp.full_like(rows, count), rows), values, reduce)
        return xp.permute_dims(xp.reshape(out[:count, ...], moved.shape), inverse_order(order))

    def vjp(self, grads, outputs, inputs, needs, attrs):
        x, values, *indices = inputs
        by_x, by_values = _PUT_GRADIENTS[attrs.get("reduce", "set")](
            grads[0], outputs[0], x, values, indices, attrs["axes"]
        )
        return [by_x() if needs[0] else None, by_values() if needs[1] else None, *[None] * len(indices)]

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return 0 if attrs.get("reduce", "set") == "set" else ins[1].size

    def bytes_moved(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return 2 * total_bytes(outs) + 2 * total_bytes(ins[1:])

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        of_samples = all(d is BATCHED for d in dependences[:2]) and BATCHED not in dependences[2:]
        return _keeps_first_axis(attrs) and of_samples


def write_rows(xp: Any, out: Any, rows: Any, values: Any, reduce: str) -> None:
    """Write values [n, ...] to the rows [n] of ``out``, in order. NumPy and CuPy do so by functions of their own."""
    if reduce == "sum":
        if str(out.dtype).endswith("bool"):
            reduce = "amax"
        else:
            scatter_add(xp, out, rows, values)
            return
    if reduce == "prod" and str(out.dtype).endswith("bool"):
        reduce = "amin"
    if hasattr(xp, "add") and hasattr(xp.add, "at"):
        if reduce == "set":
            out[rows] = values
        else:
            {"prod": xp.multiply, "amax": xp.maximum, "amin": xp.minimum}[reduce].at(out, rows, values)
        return
    join = {"set": lambda a, b: b, "prod": lambda a, b: a * b, "amax": _larger, "amin": _smaller}[reduce]
    for k in range(int(rows.shape[0])):
        row = int(rows[k])
        out[row, ...] = join(out[row, ...], values[k, ...])


def _larger(a: Any, b: Any) -> Any:
    xp = array_module(a)
    return a | b if str(a.dtype).endswith("bool") else xp.maximum(a, b)


def _smaller(a: Any, b: Any) -> Any:
    xp = array_module(a)
    return a & b if str(a.dtype).endswith("bool") else xp.minimum(a, b)


def _grad_of_set(g: Any, y: Any, x: Any, values: Any, indices: list[Any], axes: tuple[int, ...]) -> Any:
    def by_x() -> Any:
        zeros = OPS["full"](shape=tuple(values.shape), value=0, dtype=values.dtype)
        return index_put(g, zeros, *indices, axes=axes, reduce="set")

    return by_x, lambda: advanced_index(g, *indices, axes=axes)


def _grad_of_sum(g: Any, y: Any, x: Any, values: Any, indices: list[Any], axes: tuple[int, ...]) -> Any:
    return lambda: g, lambda: advanced_index(g, *indices, axes=axes)


def _grad_of_extremum(g: Any, y: Any, x: Any, values: Any, indices: list[Any], axes: tuple[int, ...]) -> Any:
    """Elements equal to the extremum share the gradient."""
    own = OPS["cast"](OPS["equal"](x, y), dtype=x.dtype)
    of_values = OPS["cast"](OPS["equal"](values, advanced_index(y, *indices, axes=axes)), dtype=x.dtype)
    share = g / index_put(own, of_values, *indices, axes=axes, reduce="sum")
    return lambda: own * share, lambda: of_values * advanced_index(share, *indices, axes=axes)


def _grad_of_prod(g: Any, y: Any, x: Any, values: Any, indices: list[Any], axes: tuple[int, ...]) -> Any:
    """The gradient is the product of the others: y / x, and where a factor is 0 the product without it."""

    def nonzero(v: Any, is_zero: Any) -> Any:
        return OPS["where"](is_zero, OPS["full"](shape=(), value=1, dtype=v.dtype), v)

    def by_x() -> Any:
        is_zero = OPS["equal"](x, 0)
        divisor = nonzero(x, is_zero)
        return g * index_put(divisor, values, *indices, axes=axes, reduce="prod") / divisor

    def by_values() -> Any:
        is_zero = OPS["equal"](values, 0)
        zeros = OPS["full"](shape=tuple(x.shape), value=0, dtype=x.dtype)
        counts = index_put(zeros, OPS["cast"](is_zero, dtype=x.dtype), *indices, axes=axes, reduce="sum")
        only = OPS["logical_and"](is_zero, OPS["equal"](advanced_index(counts, *indices, axes=axes), 1))
        without = index_put(x, nonzero(values, only), *indices, axes=axes, reduce="prod")
        by_quotient = advanced_index(g * y, *indices, axes=axes) / nonzero(values, is_zero)
        return OPS["where"](only, advanced_index(g * without, *indices, axes=axes), by_quotient)

    return by_x, by_values


_PUT_GRADIENTS = {
    "set": _grad_of_set,
    "sum": _grad_of_sum,
    "prod": _grad_of_prod,
    "amax": _grad_of_extremum,
    "amin": _grad_of_extremum,
}

advanced_index, index_put = AdvancedIndex(), IndexPut()
