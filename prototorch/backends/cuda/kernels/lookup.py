"""Ops that look elements up by an index, and their adjoints: sums in a fixed order, without atomics."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.backends.cuda.kernels.copy import on_device
from prototorch.backends.cuda.kernels.launch import (
    ITEM_BYTES,
    In,
    Launches,
    Out,
    Space,
    aligned,
    c_type,
    cuda_kernel,
    index,
    launch,
    source,
)  # fmt: skip
from prototorch.ops.reduce import axes
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


def _text(x: Spec, largest: int, labels: str = "i32", **given: int) -> str:
    numbers = {"INNER": 1, "COUNT": 1, "ROWS": 1, "WIDTH": 1, "PICKS": 1, "REVERSE": 0, **given}
    missing = "NOT_A_NUMBER" if x.is_float else "0"
    return source("sums", largest, X=c_type(x), L=labels, MISSING=missing, **numbers)


@cuda_kernel("take")
def take(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """Rows of a table."""
    table, indices = ins
    y, largest = outs[0], max(table.size, outs[0].size)
    text = _text(table, largest, c_type(indices), INNER=prod(table.shape[1:]))
    args = (index(y.size, largest), np.int64(table.shape[0]), In(0), In(1), Out(0))
    return Launches(launch(text, "take", y.size, *args))


@cuda_kernel("put_rows")
def put_rows(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """Rows added at their indices: places of one index are linked, and each chain is summed by one thread."""
    values, indices = ins
    y, n = outs[0], indices.size
    if n >= 1 << 20:  # looking for the next place of an index takes n steps at worst
        return None
    inner, largest = prod(y.shape[1:]), max(values.size, y.size)
    text = _text(values, largest, c_type(indices), INNER=inner)
    step = aligned(4 * n)
    near, head, far, lead = (Space(k * step) for k in range(4))
    part = Space(4 * step)
    count, total = index(n, largest), index(n * inner, largest)
    return Launches(
        launch(text, "zeros", y.size, index(y.size, largest), Out(0)),
        launch(text, "chain_near", n, count, np.int64(y.shape[0]), In(1), near, head),
        launch(text, "sums_near", n * inner, total, In(0), near, head, part),
        launch(text, "chain_far", n, count, In(1), head, far, lead),
        launch(text, "put_rows", n * inner, total, part, In(1), far, lead, Out(0)),
        space=4 * step + aligned(n * inner * (8 if y.dtype == "float64" else max(4, ITEM_BYTES[y.dtype]))),
    )


@cuda_kernel("take_along")
def take_along(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """Elements along the last axis."""
    x, indices = ins
    largest = max(x.size, outs[0].size)
    text = _text(x, largest, c_type(indices), WIDTH=x.shape[-1], PICKS=indices.shape[-1])
    return Launches(launch(text, "take_along", outs[0].size, index(outs[0].size, largest), In(0), In(1), Out(0)))


@cuda_kernel("put_along")
def put_along(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """The adjoint of `take_along`."""
    values, indices = ins
    y = outs[0]
    text = _text(values, y.size, c_type(indices), WIDTH=y.shape[-1], PICKS=indices.shape[-1])
    return Launches(launch(text, "put_along", y.size, index(y.size, y.size), In(0), In(1), Out(0)))


@cuda_kernel("one_hot")
def one_hot(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """A 1 at the index."""
    y = outs[0]
    text = _text(y, y.size, c_type(ins[0]), WIDTH=y.shape[-1])
    return Launches(launch(text, "one_hot", y.size, index(y.size, y.size), In(0), Out(0)))


@cuda_kernel("iota")
def iota(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """0, 1, 2, ..."""
    y = outs[0]
    return Launches(launch(_text(y, y.size), "iota", y.size, index(y.size, y.size), Out(0)))


@cuda_kernel("scatter_rows")
def scatter_rows(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """The adjoint of `gather`: for each row the list of those that are added to it."""
    x, y = ins[0], outs[0]
    (axis,) = axes(attrs["axis"], x.ndim)
    rows, indices = attrs["size"], attrs["indices"]
    if any(not 0 <= k < rows for k in indices):
        return None
    order = sorted(range(len(indices)), key=lambda i: indices[i])
    begins = np.searchsorted([indices[i] for i in order], np.arange(rows + 1))
    largest = max(x.size, y.size)
    text = _text(x, largest, INNER=prod(x.shape[axis + 1 :]), COUNT=len(indices), ROWS=rows)
    lists = on_device([int(b) for b in begins]), on_device(order)
    return Launches(launch(text, "rows_to", y.size, index(y.size, largest), In(0), Out(0), *lists))


@cuda_kernel("cumsum")
def cumsum(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """Running sums along an axis, one thread a row."""
    (x,) = ins
    (axis,) = axes(attrs["axis"], x.ndim)
    count, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    text = _text(x, x.size, COUNT=count, INNER=inner, REVERSE=int(attrs.get("reverse", False)))
    n = x.size // count
    return Launches(launch(text, "cumsum", n, index(n, x.size), In(0), Out(0)))
