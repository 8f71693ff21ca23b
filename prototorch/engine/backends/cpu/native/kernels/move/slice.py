"""Slices and their adjoint, flips and broadcasts, as strided copies."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import loop_nest, memory_order, op_tasks
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import (
    StridedAxis,
    row_major_strides,
    strided_copy,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.ops.reduce import normalize_axes as axes_of
from prototorch.spec import Spec


def _memory_order(spec: Spec, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(memory_order(tuple(values), spec.layout))


def _check_same_layout(x: Spec, y: Spec) -> None:
    if x.layout != y.layout:
        raise UnsupportedError("operands of different memory layouts")


@native_kernel("slice")
def slice_(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Every ``step``-th element of each axis from ``start`` on."""
    x, y = ins[0], outs[0]
    _check_same_layout(x, y)
    start, step = _memory_order(x, attrs["start"]), _memory_order(x, attrs["step"])
    in_strides, out_shape = row_major_strides(_memory_order(x, x.shape)), _memory_order(y, y.shape)
    axes = [
        StridedAxis(n, s * t, d)
        for n, s, t, d in zip(out_shape, in_strides, step, row_major_strides(out_shape), strict=True)
    ]
    copy = strided_copy(axes, x.dtype, sum(a * s for a, s in zip(start, in_strides, strict=True)), 0)
    return TaskList(lambda i, o: [copy(i[0], o[0])])


@native_kernel("slice_grad")
def slice_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Zeros, with the input at the positions that `slice_` takes."""
    x, y = ins[0], outs[0]
    _check_same_layout(x, y)
    start, step = _memory_order(x, attrs["start"]), _memory_order(x, attrs["step"])
    in_shape, out_strides = _memory_order(x, x.shape), row_major_strides(_memory_order(y, y.shape))
    axes = [
        StridedAxis(n, s, d * t)
        for n, s, d, t in zip(in_shape, row_major_strides(in_shape), out_strides, step, strict=True)
    ]
    put = strided_copy(axes, x.dtype, 0, sum(a * s for a, s in zip(start, out_strides, strict=True)))
    clear = strided_copy([StridedAxis(y.size, 1, 1)], x.dtype, 0, 0, fill_zeros=True)
    return TaskList(lambda i, o: [clear(o[0], o[0]), put(i[0], o[0])])


@native_kernel("flip")
def flip(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The elements in reverse order along some axes."""
    x = ins[0]
    _check_same_layout(x, outs[0])
    over = axes_of(attrs["axis"], x.ndim)
    is_flipped = _memory_order(x, [i in over for i in range(x.ndim)])
    shape = _memory_order(x, x.shape)
    strides = row_major_strides(shape)
    axes = [StridedAxis(n, -s if f else s, s) for n, s, f in zip(shape, strides, is_flipped, strict=True)]
    first = sum((n - 1) * s for n, s, f in zip(shape, strides, is_flipped, strict=True) if f)
    copy = strided_copy(axes, x.dtype, first, 0)
    return TaskList(lambda i, o: [copy(i[0], o[0])])


@native_kernel("broadcast_to")
def broadcast_to(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The input repeated along axes of size 1."""
    return op_tasks(loop_nest(ins, outs), "stop_gradient", outs)


def _broadcasts_positions(ins: Specs, attrs: Attrs) -> bool:
    """Whether the input has one value a channel, which is broadcast to all positions of an image."""
    return ins[0].ndim == len(attrs["shape"]) >= 4 and prod(ins[0].shape[2:]) == 1


register_channels_last("native", "follows", "slice", "slice_grad", "flip")
register_channels_last("native", "prefers", "broadcast_to", when=_broadcasts_positions)
