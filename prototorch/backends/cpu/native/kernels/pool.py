"""Pooling: each item is a row of windows. Windows that lie inside the input are written out tap by tap; the others, and
windows of many taps, are loops over the taps inside the input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.columns import row_of_columns, side_by_side, strided
from prototorch.backends.cpu.native.kernels.windows import (
    UNROLLED,
    Windows,
    channel_vectors,
    two_ways,
    unravelled,
    windows_of,
    within,
)
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

#: reads a vector of an array, the numbers of some windows at one tap
See = Callable[[Pointer], Num]
#: does something to what is seen at the tap of a number
Take = Callable[[See, Any], None]
#: emits one vector of a window: (where the result lies, lanes, mask, the taps, where it begins or None if it is full)
Window = Callable[[Int, int, "Num | None", Callable[[Take], None], "list[Int] | None"], None]


def _windows(k: Kernel, w: Windows, emit: Window) -> None:
    depth, height, width = w.size
    with k.range(k.first, k.last) as row:
        image, od, oh = unravelled(row, w.out[:2])
        starts = [od * w.strides[0] - w.before[0], oh * w.strides[1] - w.before[1]]
        result = row * (w.out[2] * w.channels)
        place = ((image * depth + starts[0]) * height + starts[1]) * width

        def quick(ow: Int) -> None:
            at = (place + ow * w.strides[2] - w.before[2]) * w.channels

            def vector(c: Int, lanes: int, mask: Num | None) -> None:
                def taps(take: Take) -> None:
                    for number, (i, j, m) in enumerate(product(*map(range, w.kernel))):
                        tap = at + c + ((i * height + j) * width + m) * w.channels
                        take(_seen(tap, lanes, mask), number)

                emit(result + ow * w.channels + c, lanes, mask, taps, None)

            channel_vectors(k, w.channels, vector)

        def careful(ow: Int) -> None:
            begin = [*starts, ow * w.strides[2] - w.before[2]]
            low = [(0 - b).maximum(0) for b in begin]
            high = [(n - b).minimum(s) for b, n, s in zip(begin, w.size, w.kernel, strict=True)]

            def vector(c: Int, lanes: int, mask: Num | None) -> None:
                def taps(take: Take) -> None:
                    with (
                        k.range(low[0], high[0]) as i,
                        k.range(low[1], high[1]) as j,
                        k.range(low[2], high[2]) as m,
                    ):
                        at = ((place + begin[2]) + (i * height + j) * width + m) * w.channels + c
                        take(_seen(at, lanes, mask), (i * w.kernel[1] + j) * w.kernel[2] + m)

                emit(result + ow * w.channels + c, lanes, mask, taps, begin)

            channel_vectors(k, w.channels, vector)

        def beside(ow: Int, lanes: int, count: int) -> None:
            begin = [*starts, ow * w.strides[2] - w.before[2]]
            low = [(0 - b).maximum(0) for b in begin[:2]]
            high = [(n - b).minimum(s) for b, n, s in zip(begin[:2], w.size, w.kernel, strict=False)]

            def look(at: Any) -> See:
                return lambda p: strided(k, p, at, w.strides[2], lanes, count)

            def taps(take: Take) -> None:
                with k.range(low[0], high[0]) as i, k.range(low[1], high[1]) as j:
                    at = (place + begin[2]) + (i * height + j) * width
                    for m in range(w.kernel[2]):
                        take(look(at + m), (i * w.kernel[1] + j) * w.kernel[2] + m)

            emit(result + ow, lanes, None if count == lanes else k.mask(count, lanes), taps, begin)

        if side_by_side(w) and w.kernel[2] <= UNROLLED:
            row_of_columns(k, w.full(2), w.out[2], beside, careful)
        else:
            fast = w.full(2) if w.taps <= UNROLLED else (0, 0)
            inside = within(od, w.full(0)) & within(oh, w.full(1))
            two_ways(k, inside, fast, w.out[2], quick, careful)


def _seen(at: Any, lanes: int, mask: Num | None) -> See:
    return lambda p: p.load(at, lanes, mask)


def _largest(k: Kernel, w: Windows, past: bool) -> None:
    x, y, number = k.pointer(0), k.pointer(1, streams=past), k.pointer(2, "int32", past)

    def window(result: Int, lanes: int, mask: Num | None, taps: Any, begin: Any) -> None:
        best = k.variable(k.num(float("-inf")).splat(lanes))
        which = k.variable(k.zero(lanes, "int32"))

        def take(see: See, tap: Any) -> None:
            seen, held = see(x), best.value
            better = ~(seen <= held) & (held == held)  # larger, or the first NaN
            best.value = k.select(better, seen, held)
            which.value = k.select(better, k.num(tap, "int32").splat(lanes), which.value)

        taps(take)
        y.store(best.value, result, mask)
        number.store(which.value, result, mask)

    _windows(k, w, window)


def counted(k: Kernel, w: Windows, begin: list[Int], include_pad: bool) -> Num:
    """How many elements the mean of a window that begins there divides by."""
    total = None
    for b, n, s, lo, hi in zip(begin, w.size, w.kernel, w.before, w.after, strict=True):
        first, last = (-lo, n + hi) if include_pad else (0, n)
        along = ((b + s).minimum(last) - b.maximum(first)).maximum(1)
        total = along if total is None else total * along
    return k.num(total)


def _mean(k: Kernel, w: Windows, include_pad: bool, past: bool) -> None:
    x, y = k.pointer(0), k.pointer(1, streams=past)

    def window(result: Int, lanes: int, mask: Num | None, taps: Any, begin: list[Int] | None) -> None:
        total = k.variable(k.zero(lanes))

        def take(see: See, tap: Any) -> None:
            total.value = total.value + see(x)

        taps(take)
        share = k.num(1.0 / w.taps) if begin is None else k.num(1.0) / counted(k, w, begin, include_pad)
        y.store(total.value * share, result, mask)

    _windows(k, w, window)


def _rows(w: Windows, outs: tuple[Spec, ...], body: Callable[..., None], *params: Any) -> Tasks:
    items = w.images * w.out[0] * w.out[1]
    address = streamed(lambda past: code(body, w, *params, past), outs, w.channels)
    return Tasks(lambda i, o: [Task(address(i, o), (*i, *o), items, w.grain(items))])


@native("max_pool")
def max_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """The largest of each window and its number."""
    w = windows_of(ins[0], outs, ins[0].shape[2:], attrs)
    return _rows(w, outs, _largest)


@native("avg_pool")
def avg_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """The mean of each window."""
    w = windows_of(ins[0], outs, ins[0].shape[2:], attrs)
    return _rows(w, outs, _mean, attrs.get("include_pad", False))


channels_last("native", "follows", "max_pool", "avg_pool")
