"""Local response normalisation across channels: all channels of a range of pixels at a time, which stay in the
cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

_BLOCK_ELEMENTS = 1 << 16  # elements that are processed together


def window_sum(x: Any, half: int, out: Any) -> None:
    """x [c, p] summed over each channel and ``half`` neighbours on both sides."""
    np.copyto(out, x)
    for d in range(1, min(half, len(x) - 1) + 1):
        np.add(out[d:], x[:-d], out=out[d:])
        np.add(out[:-d], x[d:], out=out[:-d])


def _power_into(base: Any, beta: float, out: Any, spare: Any) -> None:
    """base ** beta; by square roots where possible, which is five times as fast."""
    if beta == 0.75:
        np.sqrt(base, out=out)
        np.sqrt(out, out=spare)
        np.multiply(out, spare, out=out)
    elif beta == 0.5:
        np.sqrt(base, out=out)
    else:
        np.power(base, beta, out=out)


def _make_pixel_blocks(body: Callable[..., None], shape: tuple[int, ...], dtype: str, spares: int) -> KernelFn:
    """A kernel for ``body(inputs, outputs, buffers)`` on [c, pixels]."""
    n, c, p = shape[0], shape[1], prod(shape[2:])
    width = min(max(_BLOCK_ELEMENTS // max(c, 1), 16), max(p, 1))
    each = -(-p // width)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        arrays = [a.reshape(n, c, p) for a in (*inputs, *outputs)]

        def work(start: int, stop: int) -> None:
            for piece in range(start, stop):
                i, at = divmod(piece, each)
                first, last = at * width, min((at + 1) * width, p)
                memory = scratch_arrays(*(((c, last - first), dtype),) * spares)
                body(*(a[i, :, first:last] for a in arrays), *memory)

        parallel_for(work, n * each, 1)

    return run


@kernel("numpy", "lrn")
def lrn(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """y and the base of the power."""
    x = ins[0]
    if x.dtype not in ("float32", "float64") or not x.size:
        return None
    half, beta, k, share = attrs["size"] // 2, attrs["beta"], attrs["k"], attrs["alpha"] / attrs["size"]

    def body(v: Any, y: Any, base: Any, one: Any, two: Any) -> None:
        np.multiply(v, v, out=one)
        window_sum(one, half, two)
        np.multiply(two, share, out=two)
        np.add(two, k, out=base)
        _power_into(base, beta, one, two)
        np.divide(v, one, out=y)

    return _make_pixel_blocks(body, x.shape, x.dtype, 2)


@kernel("numpy", "lrn_grad")
def lrn_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """g / base^beta - x * (window sum of g * x / base^(beta + 1)) * 2 alpha beta / size."""
    x = ins[1]
    if x.dtype not in ("float32", "float64") or not x.size:
        return None
    half, beta = attrs["size"] // 2, attrs["beta"]
    factor = 2 * attrs["alpha"] * beta / attrs["size"]

    def body(g: Any, v: Any, base: Any, dx: Any, one: Any, two: Any) -> None:
        _power_into(base, beta, one, two)
        np.divide(g, one, out=dx)
        np.multiply(dx, v, out=one)
        np.divide(one, base, out=one)
        window_sum(one, half, two)
        np.multiply(two, v, out=two)
        np.multiply(two, factor, out=two)
        np.subtract(dx, two, out=dx)

    return _make_pixel_blocks(body, x.shape, x.dtype, 2)
