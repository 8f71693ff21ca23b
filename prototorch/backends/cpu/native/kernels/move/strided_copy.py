"""Copies between strided places: slices and their adjoint, and fills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from prototorch.backends.capabilities import register_channels_last
from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import SIZES, Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.common.elementwise import loop_nest, memory_order, op_tasks
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes as axes_of
from prototorch.spec import Spec

PIECE_ELEMENTS = 1 << 15
#: types by which elements are copied, by their bytes
COPY_DTYPES = {1: "uint8", 4: "float32", 8: "float64"}


class StridedAxis(NamedTuple):
    """How many elements, and how far the source and the target move for each."""

    size: int
    source_stride: int
    target_stride: int


def row_major_strides(shape: Sequence[int]) -> list[int]:
    """Of row-major memory, in elements."""
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def merge_axes(axes: Sequence[StridedAxis]) -> tuple[StridedAxis, ...]:
    """Axes along which both sides go on evenly taken together; at least one."""
    found: list[StridedAxis] = []
    for a in axes:
        if a.size == 1:
            continue
        if (
            found
            and found[-1].source_stride == a.source_stride * a.size
            and found[-1].target_stride == a.target_stride * a.size
        ):
            found[-1] = StridedAxis(found[-1].size * a.size, a.source_stride, a.target_stride)
        else:
            found.append(a)
    return tuple(found) or (StridedAxis(1, 1, 1),)


def copy_lanes(dtype: str) -> int:
    """Words that are copied at once."""
    return vector_lanes("float32") if dtype == "uint8" else vector_lanes(dtype)


def _copy_strided(k: KernelBuilder, axes: tuple[StridedAxis, ...], dtype: str, span: int, filled: bool) -> None:
    """An item is ``span`` elements of the last axis, at one place of the others. ``filled``: no source, zeros."""
    x, y = k.pointer(0, dtype), k.pointer(1, dtype)
    last, pieces = axes[-1], -(-axes[-1].size // span)
    with k.range(k.first, k.last) as item:
        begin, rest = (item % pieces) * span, item // pieces
        here, there = begin * last.source_stride, begin * last.target_stride
        for i in range(len(axes) - 2, -1, -1):
            place = rest % axes[i].size if i else rest
            here, there, rest = (
                here + place * axes[i].source_stride,
                there + place * axes[i].target_stride,
                rest // axes[i].size,
            )
        count: Any = (Int64(k, k.word(last.size)) - begin).minimum(span) if pieces > 1 else last.size
        _copy_line(k, x + here, y + there, last, count, filled)


def _copy_line(k: KernelBuilder, x: Pointer, y: Pointer, axis: StridedAxis, count: Any, filled: bool) -> None:
    lanes = copy_lanes(x.dtype)
    if axis.target_stride == 1 and (axis.source_stride == 1 or filled):

        def body(i: Int64, mask: Num | None) -> None:
            y.store(k.zero(lanes, x.dtype) if filled else x.load(i, lanes, mask), i, mask)

        k.for_each_vector(count, body, lanes)
        return
    with k.range(count) as i:
        y.store(k.num(0, x.dtype) if filled else x.load(i * axis.source_stride), i * axis.target_stride)


def strided_copy(axes: Sequence[StridedAxis], dtype: str, source: int, target: int, filled: bool = False) -> Any:
    """A function from the addresses of source and target to a task that copies; offsets in elements."""
    size = SIZES[dtype]
    if size not in COPY_DTYPES:
        raise UnsupportedError(dtype)
    word, found = COPY_DTYPES[size], merge_axes(axes)
    total, last = prod(a.size for a in found), found[-1].size
    span = min(last, PIECE_ELEMENTS)
    items = total // last * -(-last // span)
    made = kernel_code(_copy_strided, found, word, span, filled)
    grain = items if total <= PIECE_ELEMENTS else max(PIECE_ELEMENTS // span, 1)
    return lambda x, y: ParallelTask(made.address, (x + source * size, y + target * size), items, grain)


def _memory_order(spec: Spec, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(memory_order(tuple(values), spec.layout))


def _check_same_layout(x: Spec, y: Spec) -> None:
    if x.layout != y.layout:
        raise UnsupportedError("operands that lie differently")


@native_kernel("slice")
def slice_(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Every ``step``-th element of each axis from ``start`` on."""
    x, y = ins[0], outs[0]
    _check_same_layout(x, y)
    start, step = _memory_order(x, attrs["start"]), _memory_order(x, attrs["step"])
    held, taken = row_major_strides(_memory_order(x, x.shape)), _memory_order(y, y.shape)
    axes = [StridedAxis(n, s * t, d) for n, s, t, d in zip(taken, held, step, row_major_strides(taken), strict=True)]
    made = strided_copy(axes, x.dtype, sum(a * s for a, s in zip(start, held, strict=True)), 0)
    return TaskList(lambda i, o: [made(i[0], o[0])])


@native_kernel("slice_grad")
def slice_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Zeros, and then the input at the places that `slice_` takes."""
    x, y = ins[0], outs[0]
    _check_same_layout(x, y)
    start, step = _memory_order(x, attrs["start"]), _memory_order(x, attrs["step"])
    given, held = _memory_order(x, x.shape), row_major_strides(_memory_order(y, y.shape))
    axes = [StridedAxis(n, s, d * t) for n, s, d, t in zip(given, row_major_strides(given), held, step, strict=True)]
    put = strided_copy(axes, x.dtype, 0, sum(a * s for a, s in zip(start, held, strict=True)))
    clear = strided_copy([StridedAxis(y.size, 1, 1)], x.dtype, 0, 0, filled=True)
    return TaskList(lambda i, o: [clear(o[0], o[0]), put(i[0], o[0])])


@native_kernel("flip")
def flip(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The elements in reverse order along some axes."""
    x = ins[0]
    _check_same_layout(x, outs[0])
    over = axes_of(attrs["axis"], x.ndim)
    turned = _memory_order(x, [i in over for i in range(x.ndim)])
    shape = _memory_order(x, x.shape)
    own = row_major_strides(shape)
    axes = [StridedAxis(n, -s if f else s, s) for n, s, f in zip(shape, own, turned, strict=True)]
    first = sum((n - 1) * s for n, s, f in zip(shape, own, turned, strict=True) if f)
    made = strided_copy(axes, x.dtype, first, 0)
    return TaskList(lambda i, o: [made(i[0], o[0])])


@native_kernel("broadcast_to")
def broadcast_to(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The input along axes of size 1 again and again."""
    return op_tasks(loop_nest(ins, outs), "stop_gradient", outs)


def _full(k: KernelBuilder, value: float, dtype: str) -> None:
    y, lanes = k.pointer(0, dtype), copy_lanes(dtype)
    number = k.num(value, dtype).splat(lanes)
    k.for_each_vector(k.last - k.first, lambda i, mask: y.store(number, k.first + i, mask), lanes)


@native_kernel("full")
def full(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """One value everywhere."""
    y = replace(outs[0], dtype="uint8") if outs[0].dtype == "bool" else outs[0]
    if y.dtype not in ("float32", "float64", "int32", "int64", "uint8"):
        return None
    value = bool(attrs["value"]) if outs[0].dtype == "bool" else attrs["value"]
    made = kernel_code(_full, value, y.dtype)
    return TaskList(
        lambda i, o: [
            ParallelTask(made.address, tuple(o), y.size, y.size if y.size <= PIECE_ELEMENTS else PIECE_ELEMENTS)
        ]
    )


def _iota(k: KernelBuilder, dtype: str) -> None:
    y = k.pointer(0, dtype)
    with k.range(k.first, k.last) as i:
        y.store(k.num(i, "int64").cast(dtype), i)


@native_kernel("iota")
def iota(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """0, 1, 2, ..."""
    y = outs[0]
    if y.dtype not in ("float32", "float64", "int32", "int64"):
        return None
    made = kernel_code(_iota, y.dtype)
    return TaskList(lambda i, o: [ParallelTask(made.address, tuple(o), y.size, min(y.size, PIECE_ELEMENTS))])


def _broadcasts_positions(ins: tuple[Spec, ...], attrs: dict[str, Any]) -> bool:
    """Whether each channel of a picture has one number, which is to be at all of its places."""
    return ins[0].ndim == len(attrs["shape"]) >= 4 and prod(ins[0].shape[2:]) == 1


register_channels_last("native", "follows", "slice", "slice_grad", "flip")
register_channels_last("native", "prefers", "broadcast_to", when=_broadcasts_positions)
