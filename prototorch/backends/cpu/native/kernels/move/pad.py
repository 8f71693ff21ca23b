"""Borders that are no zeros: of a constant, or of the input's own elements (reflected, repeated, from the other end).

An item is a line: the padded axis that lies innermost in memory, with all that lies within it, at one place of the
axes around. Which line of the input it is follows from a table for each of those axes; its middle is copied at once,
its ends element by element by the innermost axis' own table.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from prototorch.backends.cpu.native.ir_builder import SIZES, Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.backends.cpu.native.kernels.move.strided_copy import (
    COPY_DTYPES,
    StridedAxis,
    copy_lanes,
    full,
    row_major_strides,
    strided_copy,
)
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.shape import pad_source_indices
from prototorch.spec import Spec

PIECE = 1 << 14


class PaddedLine(NamedTuple):
    """The lines of the result: ``outer`` sizes of the axes around, the ``row_major_strides`` of the input along
    them, and of the
    line its ``inside`` elements of ``width`` numbers in the input with those ``before`` and ``after``."""

    outer: tuple[int, ...]
    strides: tuple[int, ...]
    input_size: int
    element_size: int
    before: int
    after: int

    @property
    def size(self) -> int:
        """Numbers of a line of the result."""
        return (self.before + self.input_size + self.after) * self.element_size


def _pad_lines(k: KernelBuilder, line: PaddedLine, word: str) -> None:
    """Arguments: the input, the result, and the tables, one behind the other: those around, then the line's own."""
    x, y, table = k.pointer(0, word), k.pointer(1, word), k.pointer(2, "int64")
    begins = [sum(line.outer[:i]) for i in range(len(line.outer) + 1)]
    with k.range(k.first, k.last) as item:
        source, rest = item * 0, item * 1
        for i in range(len(line.outer) - 1, -1, -1):
            place = rest % line.outer[i] if i else rest
            rest = rest // line.outer[i]
            source = source + table.load(place + begins[i]).to_int64() * line.strides[i]
        to, here = y + item * line.size, x + source
        _copy_run(k, here, to + line.before * line.element_size, line.input_size * line.element_size)
        for begin, end in (
            (0, line.before),
            (line.before + line.input_size, line.before + line.input_size + line.after),
        ):
            with k.range(begin, end) as j:
                _copy_run(
                    k,
                    here + table.load(j + begins[-1]).to_int64() * line.element_size,
                    to + j * line.element_size,
                    line.element_size,
                )


def _copy_run(k: KernelBuilder, x: Pointer, y: Pointer, count: int) -> None:
    lanes = copy_lanes(x.dtype)

    def body(i: Int64, mask: Num | None, lanes: int = lanes) -> None:
        y.store(x.load(i, lanes, mask), i, mask)

    if count == 1:
        body(Int64(k, k.word(0)), None, 1)
    else:
        k.for_each_vector(count, body, lanes)


@native_kernel("pad")
def pad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The input with a border around it."""
    x, y, mode = ins[0], outs[0], attrs.get("mode", "constant")
    if x.layout != y.layout or SIZES.get(x.dtype) not in COPY_DTYPES:
        raise UnsupportedError("arrays that lie differently, or of this type")
    given = memory_order(x.shape, x.layout)
    pads = [attrs["pads"][i] for i in memory_order(tuple(range(x.ndim)), x.layout)]
    if mode == "constant":
        return _pad_constant(x, y, given, pads, attrs.get("value", 0.0))
    last = max((i for i, p in enumerate(pads) if any(p)), default=len(given) - 1)
    tables = [pad_source_indices(n, before, after, mode) for n, (before, after) in zip(given, pads, strict=True)]
    line = PaddedLine(tuple(len(t) for t in tables[:last]), tuple(row_major_strides(given)[:last]), given[last],
                prod(given[last + 1 :]), *pads[last])  # fmt: skip
    held = np.array([i for t in tables[: last + 1] for i in t], np.int64)
    made, items = kernel_code(_pad_lines, line, COPY_DTYPES[SIZES[x.dtype]]), prod(line.outer)
    grain = items if y.size <= PIECE else max(PIECE // line.size, 1)
    return TaskList(
        lambda i, o: [ParallelTask(made.address, (*i, *o, held.ctypes.data), items, grain)], keep_alive=held
    )


def _pad_constant(x: Spec, y: Spec, given: Any, pads: Any, value: float) -> TaskList | None:
    """One number everywhere, then the input in its place."""
    filled = full((), (y,), {"value": value})
    if filled is None:
        return None
    wide = row_major_strides(memory_order(y.shape, y.layout))
    axes = [StridedAxis(n, s, t) for n, s, t in zip(given, row_major_strides(given), wide, strict=True)]
    put = strided_copy(axes, x.dtype, 0, sum(p[0] * t for p, t in zip(pads, wide, strict=True)))
    return TaskList(lambda i, o: [*filled.bind((), o), put(i[0], o[0])])
