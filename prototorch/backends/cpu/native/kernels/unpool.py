"""The adjoints of pooling, gathered: each place of the result sums what the windows over it give it, so that no two
threads write the same place.

The result is cut into blocks as large as the stride. All places of a block see the same windows, and which taps they
are is known when the code is made; blocks at the borders, and windows of many taps, are done place by place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.columns import row_of_columns, side_by_side, woven
from prototorch.backends.cpu.native.kernels.pool import counted
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

#: what a window gives to the place that is its tap: (read window, tap, begin of the window or None if full) -> number
Share = Callable[[Any, Any, "list[Int] | None"], Num]
#: reads a window's numbers for a vector of channels: (where they lie, lanes, mask)
Read = Callable[[Any, int, "Num | None"], Any]


def _range_of(i: Int, w: Windows, axis: int) -> tuple[Int, Int]:
    """The windows over a place along an axis: first and one behind the last."""
    k, s, p = w.kernel[axis], w.strides[axis], w.before[axis]
    return (i + (p - k + s)).maximum(0) // s, ((i + p) // s + 1).minimum(w.out[axis])


def _place(k: Kernel, w: Windows, y: Any, image: Int, at: list[Int], read: Read, share: Share) -> None:
    """One place of the result, whatever windows are over it; those with the smallest taps first."""
    (d, e), (h, i), (m, n) = (_range_of(a, w, axis) for axis, a in enumerate(at))

    def vector(c: Int, lanes: int, mask: Num | None) -> None:
        total = k.variable(k.zero(lanes))
        with k.range(e - d) as back0, k.range(i - h) as back1, k.range(n - m) as back2:
            window = [e - 1 - back0, i - 1 - back1, n - 1 - back2]
            begin = [o * s - p for o, s, p in zip(window, w.strides, w.before, strict=True)]
            taps = [a - b for a, b in zip(at, begin, strict=True)]
            index = ((image * w.out[0] + window[0]) * w.out[1] + window[1]) * w.out[2] + window[2]
            held = read(index * w.channels + c, lanes, mask)
            tap = (taps[0] * w.kernel[1] + taps[1]) * w.kernel[2] + taps[2]
            total.value = total.value + share(held, tap, begin)
        index = ((image * w.size[0] + at[0]) * w.size[1] + at[1]) * w.size[2] + at[2]
        y.store(total.value, index * w.channels + c, mask)

    channel_vectors(k, w.channels, vector)


def blocks(w: Windows) -> bool:
    """Whether the result is done in blocks."""
    flat = w.kernel[0] == w.strides[0] == 1 and w.before[0] == 0 and w.out[0] == w.size[0]
    return flat and w.taps <= UNROLLED and w.strides[1] * w.strides[2] <= UNROLLED


def block_rows(w: Windows, axis: int) -> tuple[int, int]:
    """The blocks along an axis: the first block's number (block q begins at q * stride - before) and how many."""
    s, p = w.strides[axis], w.before[axis]
    return p // s, (w.size[axis] - 1 + p) // s - p // s + 1


def _inner(w: Windows, axis: int) -> tuple[int, int]:
    """The range of blocks that lie in the result and whose windows are all there and full, counted from the first."""
    s, p, first = w.strides[axis], w.before[axis], block_rows(w, axis)[0]
    a, b = w.full(axis)
    reach = -(-w.kernel[axis] // s)
    low = max(a + reach - 1, -(-p // s))
    high = min(b - 1, (w.size[axis] - s + p) // s)
    return low - first, max(high + 1, low) - first


def _blocks(k: Kernel, w: Windows, y: Any, image: Int, corner: list[Int], lanes: int, count: int, read: Read,
            share: Share) -> None:  # fmt: skip
    """Neighbouring blocks inside, the lanes of a vector; ``corner`` is the first's last window along each axis."""
    (_, sh, sw), (_, kh, kw) = w.strides, w.kernel
    window = (image * w.out[1] + corner[0]) * w.out[2] + corner[1]
    place = (image * w.size[1] + corner[0] * sh - w.before[1]) * w.size[2] + corner[1] * sw - w.before[2]
    mask = None if count == lanes else k.mask(count, lanes)
    held: dict[tuple[int, int], Any] = {}
    for r in range(sh):
        row = []
        for q in range(sw):
            total = k.zero(lanes)
            for i in range(r, kh, sh):
                for j in range(q, kw, sw):
                    back = (i // sh, j // sw)
                    if back not in held:
                        held[back] = read(window - (back[0] * w.out[2] + back[1]), lanes, mask)
                    total = total + share(held[back], i * kw + j, None)
            row.append(total)
        woven(k, y, place + r * w.size[2], row, count)


def _block(k: Kernel, w: Windows, y: Any, image: Int, corner: list[Int], read: Read, share: Share) -> None:
    """A block inside: ``corner`` is its last window along each axis."""
    (_, sh, sw), (_, kh, kw) = w.strides, w.kernel
    window = (image * w.out[1] + corner[0]) * w.out[2] + corner[1]
    place = (image * w.size[1] + corner[0] * sh - w.before[1]) * w.size[2] + corner[1] * sw - w.before[2]

    def vector(c: Int, lanes: int, mask: Num | None) -> None:
        held: dict[tuple[int, int], Any] = {}
        for r in range(sh):
            for q in range(sw):
                total = None
                for i in range(r, kh, sh):
                    for j in range(q, kw, sw):
                        back = (i // sh, j // sw)
                        if back not in held:
                            at = (window - (back[0] * w.out[2] + back[1])) * w.channels + c
                            held[back] = read(at, lanes, mask)
                        part = share(held[back], i * kw + j, None)
                        total = part if total is None else total + part
                index = (place + (r * w.size[2] + q)) * w.channels + c
                y.store(k.zero(lanes) if total is None else total, index, mask)

    channel_vectors(k, w.channels, vector)


def _gathered(k: Kernel, w: Windows, y: Any, read: Read, share: Share) -> None:
    if not blocks(w):
        with k.range(k.first, k.last) as row:
            image, d, h = unravelled(row, w.size[:2])
            with k.range(w.size[2]) as column:
                _place(k, w, y, image, [d, h, column], read, share)
        return
    (first_h, rows), (first_w, columns) = block_rows(w, 1), block_rows(w, 2)
    (_, sh, sw), (_, height, width) = w.strides, w.size
    with k.range(k.first, k.last) as item:
        image, row = unravelled(item, (rows,))

        def quick(column: Int) -> None:
            _block(k, w, y, image, [row + first_h, column + first_w], read, share)

        def careful(column: Int) -> None:
            with k.range(sh) as r, k.range(sw) as q:
                h = (row + first_h) * sh + r - w.before[1]
                m = (column + first_w) * sw + q - w.before[2]
                with k.when(within(h, (0, height)) & within(m, (0, width))):
                    _place(k, w, y, image, [h * 0, h, m], read, share)

        def beside(column: Int, lanes: int, count: int) -> None:
            _blocks(k, w, y, image, [row + first_h, column + first_w], lanes, count, read, share)

        inside = within(row, _inner(w, 1))
        if side_by_side(w):
            with k.when(inside):
                row_of_columns(k, _inner(w, 2), columns, beside, careful)
            with k.when(~inside), k.range(columns) as column:
                careful(column)
        else:
            two_ways(k, inside, _inner(w, 2), columns, quick, careful)


def _chosen(k: Kernel, w: Windows, past: bool) -> None:
    g, number, y = k.pointer(0), k.pointer(1, "int32"), k.pointer(2, streams=past)

    def read(at: Any, lanes: int, mask: Num | None) -> tuple[Num, Num]:
        return g.load(at, lanes, mask), number.load(at, lanes, mask)

    def share(held: tuple[Num, Num], tap: Any, begin: Any) -> Num:
        return k.select(held[1] == k.num(tap, "int32"), held[0], k.num(0.0))

    _gathered(k, w, y, read, share)


def _shared(k: Kernel, w: Windows, include_pad: bool, past: bool) -> None:
    g, y = k.pointer(0), k.pointer(1, streams=past)

    def read(at: Any, lanes: int, mask: Num | None) -> Num:
        return g.load(at, lanes, mask)

    def share(held: Num, tap: Any, begin: list[Int] | None) -> Num:
        return held * (k.num(1.0 / w.taps) if begin is None else k.num(1.0) / counted(k, w, begin, include_pad))

    _gathered(k, w, y, read, share)


def _tasks(w: Windows, outs: tuple[Spec, ...], body: Callable[..., None], *params: Any) -> Tasks:
    depth, height, _ = w.size
    items = w.images * (depth * block_rows(w, 1)[1] if blocks(w) else depth * height)
    address = streamed(lambda past: code(body, w, *params, past), outs, w.channels)
    return Tasks(lambda i, o: [Task(address(i, o), (*i, *o), items, w.grain(items))])


def _of_result(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Windows:
    w = windows_of(outs[0], ins, attrs["size"], attrs)
    if blocks(w) and w.size[0] > 1:  # depth is as good as more images
        return Windows(w.images * w.size[0], w.channels, (1, *w.size[1:]), (1, *w.out[1:]), w.kernel, w.strides,
                       w.before, w.after)  # fmt: skip
    return w


@native("max_unpool")
def max_unpool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """Each value added where its window's largest element was."""
    w = _of_result(ins, outs, attrs)
    return _tasks(w, outs, _chosen)


@native("avg_unpool")
def avg_unpool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """Each value shared out over its window."""
    w = _of_result(ins, outs, attrs)
    return _tasks(w, outs, _shared, attrs.get("include_pad", False))


channels_last("native", "follows", "max_unpool", "avg_unpool")
