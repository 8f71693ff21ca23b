"""Concatenation: one strided copy for each input."""

from __future__ import annotations

from math import prod

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import (
    StridedAxis,
    strided_copy,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs


@native_kernel("concat")
def concat(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The inputs concatenated along an axis."""
    y = outs[0]
    if any(s.layout != y.layout for s in ins):
        raise UnsupportedError("operands of different memory layouts")
    axis = memory_order(tuple(range(y.ndim)), y.layout).index(attrs["axis"] % y.ndim)
    out_shape = memory_order(y.shape, y.layout)
    each, copies, start = prod(out_shape[axis:]), [], 0
    for s in ins:
        size = prod(memory_order(s.shape, s.layout)[axis:])
        axes = [StridedAxis(prod(out_shape[:axis]), size, each), StridedAxis(size, 1, 1)]
        copies.append(strided_copy(axes, s.dtype, 0, start))
        start += size
    return TaskList(lambda i, o: [copy(x, o[0]) for copy, x in zip(copies, i, strict=True)])


register_channels_last("native", "follows", "concat")
