"""Local response normalisation: windows over neighbouring channels.

With channels innermost, a window is a handful of loads beside each other; those at the two ends of the channels leave
out what lies beyond. In plain memory a vector goes over places, and the window over rows. The gradient needs windows of
a value that is made on the way, which is kept in the scratch memory of the thread, between zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native import special
from prototorch.backends.cpu.native.call import CHANNELS_LAST, Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Unsupported
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

WIDEST = 33  # channels of a window: its taps are written out
SERIAL, PIECE = 1 << 13, 1 << 14
_BLOCK = 1 << 10  # numbers of the value that is kept on the way


@dataclass(frozen=True)
class Lrn:
    """What is known of the op: ``places`` are those of an image."""

    images: int
    channels: int
    places: int
    size: int
    alpha: float
    beta: float
    k: float

    @property
    def half(self) -> int:
        """How far a window reaches to either side."""
        return self.size // 2


def _powers(k: Kernel, base: Num, beta: float) -> tuple[Num, Num]:
    """base ** -beta and base ** -(beta + 1)."""
    if beta == 0.75:
        root = k.call1("sqrt", base)
        made = k.num(1.0) / (root * k.call1("sqrt", root))
        return made, made * (made * (made * root))
    if beta == 0.5:
        inverse = k.num(1.0) / base
        made = k.call1("sqrt", inverse)
    elif beta == 1.0:
        made = inverse = k.num(1.0) / base
    else:
        inverse = k.num(1.0) / base
        made = special.exp(k, special.log(k, base) * -beta)
    return made, made * inverse


def _lanes_in(k: Kernel, start: int, channels: int, lanes: int) -> Num | None:
    """Which lanes of a vector that begins at a channel are channels; None for all."""
    held = [0 <= start + i < channels for i in range(lanes)]
    return None if all(held) else k.lanes_of(held)


def _along_channels(k: Kernel, lrn: Lrn, body: Callable[[Any, Num | None, list[Num | None]], None]) -> None:
    """``body(channel, mask, the mask of each tap)`` for all vectors of channels."""
    lanes, half, c = k.lanes, lrn.half, lrn.channels
    starts = range(0, c, lanes)
    middle = [s for s in starts if s >= half and s + lanes + half <= c]
    for s in starts:
        if s in middle:
            if s == middle[0]:
                with k.range(middle[0], middle[-1] + 1, lanes) as i:
                    body(i, None, [None] * lrn.size)
            continue
        masks = [_lanes_in(k, s + j - half, c, lanes) for j in range(lrn.size)]
        body(Int(k, k.word(s)), _lanes_in(k, s, c, lanes), masks)


def _forward_last(k: Kernel, lrn: Lrn, past: bool) -> None:
    x, y, bases = k.pointer(0), k.pointer(1, streams=past), k.pointer(2, streams=past)
    with k.range(k.first, k.last) as row:
        start = row * lrn.channels

        def vector(c: Any, mask: Num | None, taps: list[Num | None]) -> None:
            total = k.zero(k.lanes)
            for j, held in enumerate(taps):
                seen = x.load(start + c + (j - lrn.half), k.lanes, held)
                total = k.fma(seen, seen, total)
            base = total * (lrn.alpha / lrn.size) + lrn.k
            power, _ = _powers(k, base, lrn.beta)
            y.store(x.load(start + c, k.lanes, mask) * power, start + c, mask)
            bases.store(base, start + c, mask)

        _along_channels(k, lrn, vector)


def _block(lrn: Lrn) -> int:
    return max(_BLOCK // lrn.channels, 1)


def _scratch(lrn: Lrn) -> int:
    """Bytes of scratch memory for the gradient in either layout."""
    lanes = lanes_of("float32")
    last = _block(lrn) * (lrn.channels + lrn.half) + lrn.half + lanes
    return 4 * max(last, (lrn.channels + 2 * lrn.half) * lanes)


def _backward_last(k: Kernel, lrn: Lrn) -> None:
    g, x, bases, y = (k.pointer(i) for i in range(4))
    wide, c, lanes = lrn.channels + lrn.half, lrn.channels, k.lanes
    kept = k.local.as_type("float32")  # rows with zeros between them
    with k.range(_block(lrn) + 1) as row:
        k.vectors(lrn.half, lambda i, mask: kept.store(k.zero(lanes), row * wide + i, mask))
    with k.range(k.first, k.last, _block(lrn)) as start:
        count = (k.last - start).minimum(_block(lrn))
        with k.range(count) as row:
            at = (start + row) * c

            def ratio(i: Int, mask: Num | None, at: Int = at, row: Int = row) -> None:
                power, beyond = _powers(k, bases.load(at + i, lanes, mask), lrn.beta)
                grad = g.load(at + i, lanes, mask)
                y.store(grad * power, at + i, mask)
                kept.store(grad * beyond * x.load(at + i, lanes, mask), row * wide + i + lrn.half, mask)

            k.vectors(c, ratio)
        with k.range(count) as row:
            at = (start + row) * c

            def result(i: Int, mask: Num | None, at: Int = at, row: Int = row) -> None:
                total = k.zero(lanes)
                for j in range(lrn.size):
                    total = total + kept.load(row * wide + i + j, lanes)
                slope = x.load(at + i, lanes, mask) * total * (2 * lrn.alpha * lrn.beta / lrn.size)
                y.store(y.load(at + i, lanes, mask) - slope, at + i, mask)

            k.vectors(c, result)


def _columns(k: Kernel, lrn: Lrn, body: Callable[[Int, Num], None]) -> None:
    """``body(where a vector of places of the first channel lies, mask)`` for the items of a plain kernel."""
    vectors = -(-lrn.places // k.lanes)
    with k.range(k.first, k.last) as item:
        place = (item % vectors) * k.lanes
        mask = k.mask((lrn.places - place).minimum(k.lanes), k.lanes)
        body((item // vectors) * (lrn.channels * lrn.places) + place, mask)


def _forward_plain(k: Kernel, lrn: Lrn) -> None:
    x, y, bases = k.pointer(0), k.pointer(1), k.pointer(2)

    def column(at: Int, mask: Num) -> None:
        with k.range(lrn.channels) as c:
            total = k.variable(k.zero(k.lanes))
            with k.range((c - lrn.half).maximum(0), (c + lrn.half + 1).minimum(lrn.channels)) as j:
                seen = x.load(at + j * lrn.places, k.lanes, mask)
                total.value = k.fma(seen, seen, total.value)
            base = total.value * (lrn.alpha / lrn.size) + lrn.k
            power, _ = _powers(k, base, lrn.beta)
            here = at + c * lrn.places
            y.store(x.load(here, k.lanes, mask) * power, here, mask)
            bases.store(base, here, mask)

    _columns(k, lrn, column)


def _backward_plain(k: Kernel, lrn: Lrn) -> None:
    g, x, bases, y = (k.pointer(i) for i in range(4))
    kept, lanes = k.local.as_type("float32"), k.lanes
    end = (lrn.channels + lrn.half) * lanes
    for i in range(lrn.half):
        kept.store(k.zero(lanes), i * lanes)
        kept.store(k.zero(lanes), end + i * lanes)

    def column(at: Int, mask: Num) -> None:
        with k.range(lrn.channels) as c:
            here = at + c * lrn.places
            power, beyond = _powers(k, bases.load(here, lanes, mask), lrn.beta)
            grad = g.load(here, lanes, mask)
            y.store(grad * power, here, mask)
            kept.store(grad * beyond * x.load(here, lanes, mask), (c + lrn.half) * lanes)
        with k.range(lrn.channels) as c:
            here = at + c * lrn.places
            total = k.zero(lanes)
            for j in range(lrn.size):
                total = total + kept.load((c + j) * lanes, lanes)
            slope = x.load(here, lanes, mask) * total * (2 * lrn.alpha * lrn.beta / lrn.size)
            y.store(y.load(here, lanes, mask) - slope, here, mask)

    _columns(k, lrn, column)


def _lrn(specs: tuple[Spec, ...], attrs: dict[str, Any]) -> tuple[Lrn, bool]:
    x = specs[0]
    if any(s != x for s in specs) or x.dtype != "float32":
        raise Unsupported("arrays that differ, or are not of float32")
    if attrs["size"] > WIDEST:
        raise Unsupported("a window so wide")
    n, c, places = x.shape[0], x.shape[1], prod(x.shape[2:])
    last = x.layout == CHANNELS_LAST or places == 1
    return Lrn(n, c, places, attrs["size"], *(float(attrs[a]) for a in ("alpha", "beta", "k"))), last


def _tasks(lrn: Lrn, last: bool, forward: bool, outs: tuple[Spec, ...]) -> Tasks:
    if last:
        items, each = lrn.images * lrn.places, lrn.channels
    else:
        lanes = lanes_of("float32")
        items, each = lrn.images * -(-lrn.places // lanes), lrn.channels * lanes
    grain = items if items * each <= SERIAL else max(PIECE // each, 1)
    local = 0 if forward else _scratch(lrn)
    if last and forward:
        address = streamed(lambda past: code(_forward_last, lrn, past), outs, lrn.channels)
        return Tasks(lambda i, o: [Task(address(i, o), (*i, *o), items, grain)])
    made = code(_backward_last if last else _forward_plain if forward else _backward_plain, lrn)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain, local)])


@native("lrn")
def lrn(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """The normalised input, and the base of the power."""
    return _tasks(*_lrn((*ins, *outs), attrs), True, outs)


@native("lrn_grad")
def lrn_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks:
    """The gradient of the input."""
    return _tasks(*_lrn((*ins, *outs), attrs), False, outs)


channels_last("native", "follows", "lrn", "lrn_grad")
