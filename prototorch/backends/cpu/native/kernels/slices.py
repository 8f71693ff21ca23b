"""Copies between strided places: slices and their adjoint, and fills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import SIZES, Int, Kernel, Num, Pointer, Unsupported
from prototorch.backends.cpu.native.kernels.elementwise import memory_order, sweep_of, swept_code
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.reduce import axes as axes_of
from prototorch.spec import Spec

PIECE = 1 << 15
#: types by which elements are copied, by their bytes
WORDS = {1: "uint8", 4: "float32", 8: "float64"}


class Axis(NamedTuple):
    """How many elements, and how far the source and the target move for each."""

    size: int
    source: int
    target: int


def strides(shape: Sequence[int]) -> list[int]:
    """Of row-major memory, in elements."""
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Axes along which both sides go on evenly taken together; at least one."""
    found: list[Axis] = []
    for a in axes:
        if a.size == 1:
            continue
        if found and found[-1].source == a.source * a.size and found[-1].target == a.target * a.size:
            found[-1] = Axis(found[-1].size * a.size, a.source, a.target)
        else:
            found.append(a)
    return tuple(found) or (Axis(1, 1, 1),)


def copied_lanes(dtype: str) -> int:
    """Words that are copied at once."""
    return lanes_of("float32") if dtype == "uint8" else lanes_of(dtype)


def _copy(k: Kernel, axes: tuple[Axis, ...], dtype: str, span: int, filled: bool) -> None:
    """An item is ``span`` elements of the last axis, at one place of the others. ``filled``: no source, zeros."""
    x, y = k.pointer(0, dtype), k.pointer(1, dtype)
    last, pieces = axes[-1], -(-axes[-1].size // span)
    with k.range(k.first, k.last) as item:
        begin, rest = (item % pieces) * span, item // pieces
        here, there = begin * last.source, begin * last.target
        for i in range(len(axes) - 2, -1, -1):
            place = rest % axes[i].size if i else rest
            here, there, rest = here + place * axes[i].source, there + place * axes[i].target, rest // axes[i].size
        count: Any = (Int(k, k.word(last.size)) - begin).minimum(span) if pieces > 1 else last.size
        _line(k, x + here, y + there, last, count, filled)


def _line(k: Kernel, x: Pointer, y: Pointer, axis: Axis, count: Any, filled: bool) -> None:
    lanes = copied_lanes(x.dtype)
    if axis.target == 1 and (axis.source == 1 or filled):

        def body(i: Int, mask: Num | None) -> None:
            y.store(k.zero(lanes, x.dtype) if filled else x.load(i, lanes, mask), i, mask)

        k.vectors(count, body, lanes)
        return
    with k.range(count) as i:
        y.store(k.num(0, x.dtype) if filled else x.load(i * axis.source), i * axis.target)


def copies(axes: Sequence[Axis], dtype: str, source: int, target: int, filled: bool = False) -> Any:
    """A function from the addresses of source and target to a task that copies; offsets in elements."""
    size = SIZES[dtype]
    if size not in WORDS:
        raise Unsupported(dtype)
    word, found = WORDS[size], merged(axes)
    total, last = prod(a.size for a in found), found[-1].size
    span = min(last, PIECE)
    items = total // last * -(-last // span)
    made = code(_copy, found, word, span, filled)
    grain = items if total <= PIECE else max(PIECE // span, 1)
    return lambda x, y: Task(made.address, (x + source * size, y + target * size), items, grain)


def _order(spec: Spec, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(memory_order(tuple(values), spec.layout))


def _alike(x: Spec, y: Spec) -> None:
    if x.layout != y.layout:
        raise Unsupported("operands that lie differently")


@native("slice")
def slice_(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Every ``step``-th element of each axis from ``start`` on."""
    x, y = ins[0], outs[0]
    _alike(x, y)
    start, step = _order(x, attrs["start"]), _order(x, attrs["step"])
    held, taken = strides(_order(x, x.shape)), _order(y, y.shape)
    axes = [Axis(n, s * t, d) for n, s, t, d in zip(taken, held, step, strides(taken), strict=True)]
    made = copies(axes, x.dtype, sum(a * s for a, s in zip(start, held, strict=True)), 0)
    return Tasks(lambda i, o: [made(i[0], o[0])])


@native("unslice")
def unslice(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Zeros, and then the input at the places that `slice_` takes."""
    x, y = ins[0], outs[0]
    _alike(x, y)
    start, step = _order(x, attrs["start"]), _order(x, attrs["step"])
    given, held = _order(x, x.shape), strides(_order(y, y.shape))
    axes = [Axis(n, s, d * t) for n, s, d, t in zip(given, strides(given), held, step, strict=True)]
    put = copies(axes, x.dtype, 0, sum(a * s for a, s in zip(start, held, strict=True)))
    clear = copies([Axis(y.size, 1, 1)], x.dtype, 0, 0, filled=True)
    return Tasks(lambda i, o: [clear(o[0], o[0]), put(i[0], o[0])])


@native("flip")
def flip(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The elements in reverse order along some axes."""
    x = ins[0]
    _alike(x, outs[0])
    over = axes_of(attrs["axis"], x.ndim)
    turned = _order(x, [i in over for i in range(x.ndim)])
    shape = _order(x, x.shape)
    own = strides(shape)
    axes = [Axis(n, -s if f else s, s) for n, s, f in zip(shape, own, turned, strict=True)]
    first = sum((n - 1) * s for n, s, f in zip(shape, own, turned, strict=True) if f)
    made = copies(axes, x.dtype, first, 0)
    return Tasks(lambda i, o: [made(i[0], o[0])])


@native("broadcast_to")
def broadcast_to(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The input along axes of size 1 again and again."""
    return swept_code(sweep_of(ins, outs), "stop_gradient", outs)


def _full(k: Kernel, value: float, dtype: str) -> None:
    y, lanes = k.pointer(0, dtype), copied_lanes(dtype)
    number = k.num(value, dtype).splat(lanes)
    k.vectors(k.last - k.first, lambda i, mask: y.store(number, k.first + i, mask), lanes)


@native("full")
def full(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """One value everywhere."""
    y = replace(outs[0], dtype="uint8") if outs[0].dtype == "bool" else outs[0]
    if y.dtype not in ("float32", "float64", "int32", "int64", "uint8"):
        return None
    value = bool(attrs["value"]) if outs[0].dtype == "bool" else attrs["value"]
    made = code(_full, value, y.dtype)
    return Tasks(lambda i, o: [Task(made.address, tuple(o), y.size, y.size if y.size <= PIECE else PIECE)])


def _iota(k: Kernel, dtype: str) -> None:
    y = k.pointer(0, dtype)
    with k.range(k.first, k.last) as i:
        y.store(k.num(i, "int64").cast(dtype), i)


@native("iota")
def iota(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """0, 1, 2, ..."""
    y = outs[0]
    if y.dtype not in ("float32", "float64", "int32", "int64"):
        return None
    made = code(_iota, y.dtype)
    return Tasks(lambda i, o: [Task(made.address, tuple(o), y.size, min(y.size, PIECE))])


def _from_places(ins: tuple[Spec, ...], attrs: dict[str, Any]) -> bool:
    """Whether each channel of a picture has one number, which is to be at all of its places."""
    return ins[0].ndim == len(attrs["shape"]) >= 4 and prod(ins[0].shape[2:]) == 1


channels_last("native", "follows", "slice", "unslice", "flip")
channels_last("native", "prefers", "broadcast_to", when=_from_places)
