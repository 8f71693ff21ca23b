"""Local response normalization (Krizhevsky et al., 2012): windows over adjacent channels.

With channels last a window is a few adjacent loads; at both ends of the channels those outside are left out. In the
plain layout vectors run over positions, and the window over rows. The gradient needs windows of an intermediate value,
which is stored in the thread's scratch memory, between zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native import exp_log
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import CHANNELS_LAST, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

MAX_WINDOW = 33  # channels of a window, whose taps are unrolled
SERIAL_ELEMENTS, PIECE_ELEMENTS = 1 << 13, 1 << 14
_BLOCK_ELEMENTS = 1 << 10  # elements of the intermediate value


@dataclass(frozen=True)
class LrnShape:
    """The sizes and coefficients of the op; ``positions`` are those of an image."""

    images: int
    channels: int
    positions: int
    size: int
    alpha: float
    beta: float
    k: float

    @property
    def radius(self) -> int:
        """How far a window extends to either side."""
        return self.size // 2


def _negative_powers(k: KernelBuilder, base: Num, beta: float) -> tuple[Num, Num]:
    """Return base ** -beta and base ** -(beta + 1)."""
    if beta == 0.75:
        root = k.unary_intrinsic("sqrt", base)
        power = k.num(1.0) / (root * k.unary_intrinsic("sqrt", root))
        return power, power * (power * (power * root))
    if beta == 0.5:
        inverse = k.num(1.0) / base
        power = k.unary_intrinsic("sqrt", inverse)
    elif beta == 1.0:
        power = inverse = k.num(1.0) / base
    else:
        inverse = k.num(1.0) / base
        power = exp_log.exp(k, exp_log.log(k, base) * -beta)
    return power, power * inverse


def _channel_mask(k: KernelBuilder, start: int, channels: int, lanes: int) -> Num | None:
    """Return which lanes of a vector that begins at a channel are channels; None for all."""
    valid = [0 <= start + i < channels for i in range(lanes)]
    return None if all(valid) else k.constant_mask(valid)


def _for_each_channel_vector(
    k: KernelBuilder, lrn: LrnShape, body: Callable[[Any, Num | None, list[Num | None]], None]
) -> None:
    """Emit ``body(channel, mask, the mask of each tap)`` for all vectors of channels."""
    lanes, half, c = k.lanes, lrn.radius, lrn.channels
    starts = range(0, c, lanes)
    middle = [s for s in starts if s >= half and s + lanes + half <= c]
    for s in starts:
        if s in middle:
            if s == middle[0]:
                with k.range(middle[0], middle[-1] + 1, lanes) as i:
                    body(i, None, [None] * lrn.size)
            continue
        masks = [_channel_mask(k, s + j - half, c, lanes) for j in range(lrn.size)]
        body(Int64(k, k.word(s)), _channel_mask(k, s, c, lanes), masks)


def _forward_channels_last(k: KernelBuilder, lrn: LrnShape, nontemporal: bool) -> None:
    x, y, bases = k.pointer(0), k.pointer(1, nontemporal=nontemporal), k.pointer(2, nontemporal=nontemporal)
    with k.range(k.first, k.last) as row:
        start = row * lrn.channels

        def vector(c: Index, mask: Mask, taps: list[Num | None]) -> None:
            total = k.zero(k.lanes)
            for j, tap_mask in enumerate(taps):
                value = x.load(start + c + (j - lrn.radius), k.lanes, tap_mask)
                total = k.fma(value, value, total)
            base = total * (lrn.alpha / lrn.size) + lrn.k
            power, _ = _negative_powers(k, base, lrn.beta)
            y.store(x.load(start + c, k.lanes, mask) * power, start + c, mask)
            bases.store(base, start + c, mask)

        _for_each_channel_vector(k, lrn, vector)


def _block_rows(lrn: LrnShape) -> int:
    return max(_BLOCK_ELEMENTS // lrn.channels, 1)


def _scratch_bytes(lrn: LrnShape) -> int:
    """Return the scratch memory of the gradient, in bytes, for either layout."""
    lanes = vector_lanes("float32")
    last = _block_rows(lrn) * (lrn.channels + lrn.radius) + lrn.radius + lanes
    return 4 * max(last, (lrn.channels + 2 * lrn.radius) * lanes)


def _backward_channels_last(k: KernelBuilder, lrn: LrnShape) -> None:
    g, x, bases, y = (k.pointer(i) for i in range(4))
    row_stride, c, lanes = lrn.channels + lrn.radius, lrn.channels, k.lanes
    ratios = k.local.as_type("float32")  # rows with zeros between them
    with k.range(_block_rows(lrn) + 1) as row:
        k.for_each_vector(lrn.radius, lambda i, mask: ratios.store(k.zero(lanes), row * row_stride + i, mask))
    with k.range(k.first, k.last, _block_rows(lrn)) as start:
        count = (k.last - start).minimum(_block_rows(lrn))
        with k.range(count) as row:
            at = (start + row) * c

            def ratio(i: Int64, mask: Mask, at: Int64 = at, row: Int64 = row) -> None:
                power, next_power = _negative_powers(k, bases.load(at + i, lanes, mask), lrn.beta)
                grad = g.load(at + i, lanes, mask)
                y.store(grad * power, at + i, mask)
                ratios.store(grad * next_power * x.load(at + i, lanes, mask), row * row_stride + i + lrn.radius, mask)

            k.for_each_vector(c, ratio)
        with k.range(count) as row:
            at = (start + row) * c

            def result(i: Int64, mask: Mask, at: Int64 = at, row: Int64 = row) -> None:
                total = k.zero(lanes)
                for j in range(lrn.size):
                    total = total + ratios.load(row * row_stride + i + j, lanes)
                window_grad = x.load(at + i, lanes, mask) * total * (2 * lrn.alpha * lrn.beta / lrn.size)
                y.store(y.load(at + i, lanes, mask) - window_grad, at + i, mask)

            k.for_each_vector(c, result)


def _for_each_column(k: KernelBuilder, lrn: LrnShape, body: Callable[[Int64, Num], None]) -> None:
    """Emit ``body(offset of a vector of positions of the first channel, mask)`` for the work items of a plain
    kernel."""
    vectors = -(-lrn.positions // k.lanes)
    with k.range(k.first, k.last) as item:
        position = (item % vectors) * k.lanes
        mask = k.mask((lrn.positions - position).minimum(k.lanes), k.lanes)
        body((item // vectors) * (lrn.channels * lrn.positions) + position, mask)


def _forward_nchw(k: KernelBuilder, lrn: LrnShape) -> None:
    x, y, bases = k.pointer(0), k.pointer(1), k.pointer(2)

    def column(at: Int64, mask: Num) -> None:
        with k.range(lrn.channels) as c:
            total = k.variable(k.zero(k.lanes))
            with k.range((c - lrn.radius).maximum(0), (c + lrn.radius + 1).minimum(lrn.channels)) as j:
                value = x.load(at + j * lrn.positions, k.lanes, mask)
                total.value = k.fma(value, value, total.value)
            base = total.value * (lrn.alpha / lrn.size) + lrn.k
            power, _ = _negative_powers(k, base, lrn.beta)
            offset = at + c * lrn.positions
            y.store(x.load(offset, k.lanes, mask) * power, offset, mask)
            bases.store(base, offset, mask)

    _for_each_column(k, lrn, column)


def _backward_nchw(k: KernelBuilder, lrn: LrnShape) -> None:
    g, x, bases, y = (k.pointer(i) for i in range(4))
    ratios, lanes = k.local.as_type("float32"), k.lanes
    end = (lrn.channels + lrn.radius) * lanes
    for i in range(lrn.radius):
        ratios.store(k.zero(lanes), i * lanes)
        ratios.store(k.zero(lanes), end + i * lanes)

    def column(at: Int64, mask: Num) -> None:
        with k.range(lrn.channels) as c:
            offset = at + c * lrn.positions
            power, next_power = _negative_powers(k, bases.load(offset, lanes, mask), lrn.beta)
            grad = g.load(offset, lanes, mask)
            y.store(grad * power, offset, mask)
            ratios.store(grad * next_power * x.load(offset, lanes, mask), (c + lrn.radius) * lanes)
        with k.range(lrn.channels) as c:
            offset = at + c * lrn.positions
            total = k.zero(lanes)
            for j in range(lrn.size):
                total = total + ratios.load((c + j) * lanes, lanes)
            window_grad = x.load(offset, lanes, mask) * total * (2 * lrn.alpha * lrn.beta / lrn.size)
            y.store(y.load(offset, lanes, mask) - window_grad, offset, mask)

    _for_each_column(k, lrn, column)


def _lrn_shape(specs: Specs, attrs: Attrs) -> tuple[LrnShape, bool]:
    x = specs[0]
    if any(s != x for s in specs) or x.dtype != "float32":
        raise UnsupportedError("arrays of different shapes or layouts, or not of float32")
    if attrs["size"] > MAX_WINDOW:
        raise UnsupportedError(f"a window of more than {MAX_WINDOW} channels")
    n, c, positions = x.shape[0], x.shape[1], prod(x.shape[2:])
    last = x.layout == CHANNELS_LAST or positions == 1
    return LrnShape(n, c, positions, attrs["size"], *(float(attrs[a]) for a in ("alpha", "beta", "k"))), last


def _tasks(lrn: LrnShape, last: bool, forward: bool, outs: Specs) -> TaskList:
    if last:
        items, each = lrn.images * lrn.positions, lrn.channels
    else:
        lanes = vector_lanes("float32")
        items, each = lrn.images * -(-lrn.positions // lanes), lrn.channels * lanes
    grain = items if items * each <= SERIAL_ELEMENTS else max(PIECE_ELEMENTS // each, 1)
    local = 0 if forward else _scratch_bytes(lrn)
    if last and forward:
        address = choose_nontemporal(
            lambda nontemporal: kernel_code(_forward_channels_last, lrn, nontemporal), outs, lrn.channels
        )
        return TaskList(lambda i, o: [ParallelTask(address(i, o), (*i, *o), items, grain)])
    kernel = kernel_code(_backward_channels_last if last else _forward_nchw if forward else _backward_nchw, lrn)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, grain, local)])


@native_kernel("lrn")
def lrn(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The normalized input, and the base of the power."""
    return _tasks(*_lrn_shape((*ins, *outs), attrs), True, outs)


@native_kernel("lrn_grad")
def lrn_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The gradient of the input."""
    return _tasks(*_lrn_shape((*ins, *outs), attrs), False, outs)


register_channels_last("native", "follows", "lrn", "lrn_grad")
