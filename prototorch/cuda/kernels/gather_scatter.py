"""Gathers by an index, and sums at constant indices, in a fixed order, without atomics."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.data_movement import upload_table
from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    c_type,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
    kernel_source,
)
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
MAX_PICKS = 32  #: added in a row; more of them are sorted (`index_rows`)


def _gather_source(x: Spec, largest: int, labels: str = "i32", **sizes: int) -> str:
    numbers = {"INNER": 1, "COUNT": 1, "ROWS": 1, "WIDTH": 1, "PICKS": 1, **sizes}
    missing = "NOT_A_NUMBER" if x.is_float else "0"
    return kernel_source("gather_scatter", largest, X=c_type(x), L=labels, MISSING=missing, **numbers)


@cuda_kernel("take")
def take(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Rows of a table."""
    table, indices = ins
    y, largest = outs[0], max(table.size, outs[0].size)
    source = _gather_source(table, largest, c_type(indices), INNER=prod(table.shape[1:]))
    args = (index_scalar(y.size, largest), np.int64(table.shape[0]), InputArg(0), InputArg(1), OutputArg(0))
    return LaunchSequence(grid_stride_launch(source, "take", y.size, *args))


@cuda_kernel("take_along_axis")
def take_along_axis(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Elements along the last axis."""
    x, indices = ins
    largest = max(x.size, outs[0].size)
    source = _gather_source(x, largest, c_type(indices), WIDTH=x.shape[-1], PICKS=indices.shape[-1])
    return LaunchSequence(
        grid_stride_launch(
            source,
            "take_along_axis",
            outs[0].size,
            index_scalar(outs[0].size, largest),
            InputArg(0),
            InputArg(1),
            OutputArg(0),
        )
    )


@cuda_kernel("scatter_add_along_axis")
def scatter_add_along_axis(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The adjoint of `take_along_axis`, where few elements are added in each row: an output looks at all of them."""
    values, indices = ins
    y = outs[0]
    if indices.shape[-1] > MAX_PICKS:
        return None
    source = _gather_source(values, y.size, c_type(indices), WIDTH=y.shape[-1], PICKS=indices.shape[-1])
    return LaunchSequence(
        grid_stride_launch(
            source,
            "scatter_add_along_axis",
            y.size,
            index_scalar(y.size, y.size),
            InputArg(0),
            InputArg(1),
            OutputArg(0),
        )
    )


@cuda_kernel("one_hot")
def one_hot(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """A 1 at the index."""
    y = outs[0]
    source = _gather_source(y, y.size, c_type(ins[0]), WIDTH=y.shape[-1])
    return LaunchSequence(
        grid_stride_launch(source, "one_hot", y.size, index_scalar(y.size, y.size), InputArg(0), OutputArg(0))
    )


@cuda_kernel("iota")
def iota(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """0, 1, 2, ..."""
    y = outs[0]
    return LaunchSequence(
        grid_stride_launch(_gather_source(y, y.size), "iota", y.size, index_scalar(y.size, y.size), OutputArg(0))
    )


@cuda_kernel("static_scatter_add")
def static_scatter_add(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The adjoint of `gather`: for each row the list of those that are added to it."""
    x, y = ins[0], outs[0]
    (axis,) = normalize_axes(attrs["axis"], x.ndim)
    rows, indices = attrs["size"], attrs["indices"]
    if any(not 0 <= k < rows for k in indices):
        return None
    order = sorted(range(len(indices)), key=lambda i: indices[i])
    begins = np.searchsorted([indices[i] for i in order], np.arange(rows + 1))
    largest = max(x.size, y.size)
    source = _gather_source(x, largest, INNER=prod(x.shape[axis + 1 :]), COUNT=len(indices), ROWS=rows)
    lists = upload_table([int(b) for b in begins]), upload_table(order)
    return LaunchSequence(
        grid_stride_launch(source, "rows_to", y.size, index_scalar(y.size, largest), InputArg(0), OutputArg(0), *lists)
    )
