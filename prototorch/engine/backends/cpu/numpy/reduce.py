"""Reduction kernels. Floating-point sums are BLAS products with ones, in blocks of fixed size.

A block is at most `_BLOCK_ELEMENTS` elements long and the blocks' sums are added by NumPy, so that the error stays
that of a sum of some thousand elements for any length, and the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.elementwise import (
    PARALLEL_MIN_SIZE,
    has_numpy_dtypes,
    make_elementwise_kernel,
)
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.reduce import normalize_axes, reduced_shape
from prototorch.spec import Spec

_BLOCK_ELEMENTS = 4096  # elements in one dot product
_MAX_PLAIN_SIZE = 2048  # up to this size NumPy's own reduction is as fast


@lru_cache(maxsize=32)
def _ones(n: int, dtype: str) -> np.ndarray:
    ones = np.ones(n, dtype)
    ones.setflags(write=False)
    return ones


def _axis_runs(shape: tuple[int, ...], over: tuple[int, ...]) -> list[tuple[bool, int]]:
    """The shape as alternating runs (summed or not, elements); axes of size 1 belong to any run."""
    runs: list[tuple[bool, int]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        is_reduced = axis in over
        if runs and runs[-1][0] == is_reduced:
            runs[-1] = (is_reduced, runs[-1][1] * n)
        else:
            runs.append((is_reduced, n))
    return runs


def sum_rows(x: Any, out: Any) -> None:
    """x [m, k] summed over k into out [m]."""
    m, k = x.shape
    ones = _ones(min(k, _BLOCK_ELEMENTS), x.dtype.str)
    if k <= _BLOCK_ELEMENTS:
        np.matmul(x, ones, out=out)
        return
    num_blocks = k // _BLOCK_ELEMENTS
    head = num_blocks * _BLOCK_ELEMENTS
    parts = np.empty((m, num_blocks + (head < k)), x.dtype)
    np.matmul(x[:, :head].reshape(m, num_blocks, _BLOCK_ELEMENTS), ones, out=parts[:, :num_blocks])
    if head < k:
        np.matmul(x[:, head:], ones[: k - head], out=parts[:, num_blocks])
    np.add.reduce(parts, axis=1, out=out)


def sum_columns(x: Any, out: Any) -> None:
    """x [k, n] summed over k into out [n]."""
    k = x.shape[0]
    ones = _ones(min(k, _BLOCK_ELEMENTS), x.dtype.str)
    np.matmul(ones[: min(k, _BLOCK_ELEMENTS)], x[:_BLOCK_ELEMENTS], out=out)
    for start in range(_BLOCK_ELEMENTS, k, _BLOCK_ELEMENTS):
        part = x[start : start + _BLOCK_ELEMENTS]
        out += np.matmul(ones[: len(part)], part)


def _make_sum_all(k: int, dtype: str) -> Any:
    pieces = -(-k // PARALLEL_MIN_SIZE)

    def run(x: Any, out: Any) -> None:
        x, partial_sums = x.reshape(1, -1), np.empty((pieces, 1), dtype)
        parallel_for(
            lambda a, b: sum_rows(x[:, a:b], partial_sums[a // PARALLEL_MIN_SIZE]), k, PARALLEL_MIN_SIZE, blas=True
        )
        np.add.reduce(partial_sums, axis=(0, 1), out=out.reshape(()))

    return run


def _make_sum_inner(m: int, k: int) -> Any:
    grain = max(PARALLEL_MIN_SIZE // 4 // max(k, 1), 1)

    def run(x: Any, out: Any) -> None:
        x, out = x.reshape(m, k), out.reshape(m)
        parallel_for(lambda a, b: sum_rows(x[a:b], out[a:b]), m, grain, blas=True)

    return run


def _make_sum_outer(k: int, n: int, dtype: str) -> Any:
    grain = min(max(PARALLEL_MIN_SIZE // 4 // n, 1), _BLOCK_ELEMENTS)
    pieces = -(-k // grain)

    def run(x: Any, out: Any) -> None:
        x, out = x.reshape(k, n), out.reshape(n)
        if pieces == 1:
            sum_columns(x, out)
            return
        (parts,) = scratch_arrays(((pieces, n), dtype), use="sum")
        parallel_for(lambda a, b: sum_columns(x[a:b], parts[a // grain]), k, grain, blas=True)
        np.add.reduce(parts, axis=0, out=out)

    return run


def _make_sum_middle(a: int, m: int, k: int, dtype: str) -> Any:
    """[a, m, k] summed over a and k: a bias' gradient."""
    rows = _make_sum_inner(a * m, k)

    def run(x: Any, out: Any) -> None:
        (parts,) = scratch_arrays(((a, m), dtype), use="sum")
        rows(x, parts)
        np.add.reduce(parts, axis=0, out=out.reshape(m))

    return run


def _make_blas_sum(x: Spec, over: tuple[int, ...]) -> Any:
    if x.dtype not in ("float32", "float64") or x.size <= _MAX_PLAIN_SIZE:
        return None
    runs = _axis_runs(x.shape, over)
    sizes = [n for _, n in runs]
    match [is_reduced for is_reduced, _ in runs]:
        case [True]:
            return _make_sum_all(sizes[0], x.dtype)
        case [False, True]:
            return _make_sum_inner(sizes[0], sizes[1]) if sizes[1] > 8 else None
        case [True, False]:
            return _make_sum_outer(sizes[0], sizes[1], x.dtype)
        case [True, False, True]:
            return _make_sum_middle(sizes[0], sizes[1], sizes[2], x.dtype) if sizes[2] > 8 else None
    return None


def _make_sum(x: Spec, over: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    fast = _make_blas_sum(x, over)
    if fast is not None:
        return fast

    def run(array: Any, out: Any) -> None:
        np.add.reduce(array, axis=over, dtype=array.dtype, out=out.reshape(shape))

    return run


@kernel("numpy", "sum")
def sum_(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The sum over some axes."""
    if not has_numpy_dtypes(*ins):
        return None
    over = normalize_axes(attrs.get("axis"), ins[0].ndim)
    add = _make_sum(ins[0], over, reduced_shape(ins[0].shape, over, False))
    return lambda inputs, outputs: add(inputs[0], outputs[0])


@kernel("numpy", "mean")
def mean(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The sum over some axes, divided."""
    if ins[0].dtype not in ("float32", "float64"):
        return None
    over = normalize_axes(attrs.get("axis"), ins[0].ndim)
    add = _make_sum(ins[0], over, reduced_shape(ins[0].shape, over, False))
    n = np.asarray(prod(ins[0].shape[a] for a in over), ins[0].dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        out = outputs[0]
        add(inputs[0], out)
        np.divide(out, n, out=out)

    return run


def _register_arg(name: str, function: Any) -> None:
    @kernel("numpy", name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
        if not has_numpy_dtypes(*ins):
            return None
        (axis,) = normalize_axes(attrs["axis"], ins[0].ndim)

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            outputs[0][...] = function(inputs[0], axis=axis)

        return run


_register_arg("argmax", np.argmax)


@kernel("numpy", "cumsum")
def cumsum(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The cumulative sum from either end, over forward or reversed views."""
    if not has_numpy_dtypes(*ins):
        return None
    (axis,) = normalize_axes(attrs["axis"], ins[0].ndim)
    way = (slice(None),) * axis + (slice(None, None, -1 if attrs.get("reverse") else None),)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        np.add.accumulate(inputs[0][way], axis=axis, dtype=inputs[0].dtype, out=outputs[0][way])

    return run


def _register_accumulate(name: str, function: Any) -> None:
    @kernel("numpy", name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
        if not has_numpy_dtypes(*ins):
            return None
        (axis,) = normalize_axes(attrs["axis"], ins[0].ndim)

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            function.accumulate(inputs[0], axis=axis, dtype=inputs[0].dtype, out=outputs[0])

        return run


_register_accumulate("cumprod", np.multiply)
_register_accumulate("logcumsumexp", np.logaddexp)


@kernel("numpy", "broadcast_to")
def broadcast_to(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The input repeated."""
    if not has_numpy_dtypes(*ins):
        return None

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        np.copyto(outputs[0], inputs[0])

    return make_elementwise_kernel(lambda x, y: np.copyto(y, x), ins, outs[0], run)
