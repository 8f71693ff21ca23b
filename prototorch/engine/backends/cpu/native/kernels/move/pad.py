"""Padding: by a constant, or by the input's own elements (reflect, edge, wrap).

A work item is a line: the innermost padded axis, with all axes inside of it. Which line of the input it is follows from
one table for each outer axis; its middle is copied at once, its ends element by element by the table of its own axis.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import SIZES, Int64, KernelBuilder, Pointer, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import (
    COPY_DTYPES,
    StridedAxis,
    copy_lanes,
    row_major_strides,
    strided_copy,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.move.fill import full
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.shape import pad_source_indices
from prototorch.spec import Spec

PIECE = 1 << 14


class PaddedLine(NamedTuple):
    """The lines of the result: the ``outer`` sizes and the input's ``strides`` along them; a line has ``input_size``
    elements of ``element_size`` words, with ``before`` and ``after`` elements of padding."""

    outer: tuple[int, ...]
    strides: tuple[int, ...]
    input_size: int
    element_size: int
    before: int
    after: int

    @property
    def size(self) -> int:
        """Words of a line of the result."""
        return (self.before + self.input_size + self.after) * self.element_size


def _pad_lines(k: KernelBuilder, line: PaddedLine, word: str) -> None:
    """Arguments: the input, the result, and the tables, one behind the other: those of the outer axes, then the
    line's own."""
    x, y, table = k.pointer(0, word), k.pointer(1, word), k.pointer(2, "int64")
    begins = [sum(line.outer[:i]) for i in range(len(line.outer) + 1)]
    with k.range(k.first, k.last) as item:
        source, rest = item * 0, item * 1
        for i in range(len(line.outer) - 1, -1, -1):
            index = rest % line.outer[i] if i else rest
            rest = rest // line.outer[i]
            source = source + table.load(index + begins[i]).to_int64() * line.strides[i]
        to, source_line = y + item * line.size, x + source
        _copy_run(k, source_line, to + line.before * line.element_size, line.input_size * line.element_size)
        for begin, end in (
            (0, line.before),
            (line.before + line.input_size, line.before + line.input_size + line.after),
        ):
            with k.range(begin, end) as j:
                _copy_run(
                    k,
                    source_line + table.load(j + begins[-1]).to_int64() * line.element_size,
                    to + j * line.element_size,
                    line.element_size,
                )


def _copy_run(k: KernelBuilder, x: Pointer, y: Pointer, count: int) -> None:
    lanes = copy_lanes(x.dtype)

    def body(i: Int64, mask: Mask, lanes: int = lanes) -> None:
        y.store(x.load(i, lanes, mask), i, mask)

    if count == 1:
        body(Int64(k, k.word(0)), None, 1)
    else:
        k.for_each_vector(count, body, lanes)


@native_kernel("pad")
def pad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The input with padding."""
    x, y, mode = ins[0], outs[0], attrs.get("mode", "constant")
    if x.layout != y.layout or SIZES.get(x.dtype) not in COPY_DTYPES:
        raise UnsupportedError("arrays of different memory layouts, or of this dtype")
    in_shape = memory_order(x.shape, x.layout)
    pads = [attrs["pads"][i] for i in memory_order(tuple(range(x.ndim)), x.layout)]
    if mode == "constant":
        return _pad_constant(x, y, in_shape, pads, attrs.get("value", 0.0))
    last = max((i for i, p in enumerate(pads) if any(p)), default=len(in_shape) - 1)
    tables = [pad_source_indices(n, before, after, mode) for n, (before, after) in zip(in_shape, pads, strict=True)]
    line = PaddedLine(
        tuple(len(t) for t in tables[:last]),
        tuple(row_major_strides(in_shape)[:last]),
        in_shape[last],
        prod(in_shape[last + 1 :]),
        *pads[last],
    )
    table = np.array([i for t in tables[: last + 1] for i in t], np.int64)
    kernel, items = kernel_code(_pad_lines, line, COPY_DTYPES[SIZES[x.dtype]]), prod(line.outer)
    grain = items if y.size <= PIECE else max(PIECE // line.size, 1)
    return TaskList(
        lambda i, o: [ParallelTask(kernel.address, (*i, *o, table.ctypes.data), items, grain)], keep_alive=table
    )


def _pad_constant(x: Spec, y: Spec, in_shape: Any, pads: Any, value: float) -> TaskList | None:
    """Fill with the constant, then copy the input into its position."""
    fill = full((), (y,), {"value": value})
    if fill is None and value == 0:
        zeros = strided_copy([StridedAxis(y.size, 1, 1)], x.dtype, 0, 0, fill_zeros=True)
        fill = TaskList(lambda i, o: [zeros(o[0], o[0])])
    if fill is None:
        return None
    out_strides = row_major_strides(memory_order(y.shape, y.layout))
    axes = [StridedAxis(n, s, t) for n, s, t in zip(in_shape, row_major_strides(in_shape), out_strides, strict=True)]
    put = strided_copy(axes, x.dtype, 0, sum(p[0] * t for p, t in zip(pads, out_strides, strict=True)))
    return TaskList(lambda i, o: [*fill.bind((), o), put(i[0], o[0])])


register_channels_last("native", "follows", "pad")
