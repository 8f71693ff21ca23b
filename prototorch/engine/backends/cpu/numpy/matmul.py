"""Matrix products: BLAS on views, written directly into the output."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.elementwise import has_numpy_dtypes
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

#: Minimum number of multiplications of a batch of products that is split over threads.
_MIN_PARALLEL_WORK = 1 << 20

#: a @ b.T with at most this many rows in a and at least this many elements in b is computed as (b @ a.T).T.
_SMALL_M_MAX_ROWS, _SMALL_M_MIN_SIZE = 128, 1 << 18
_ROWS_PER_TASK = 512  # of b in one product


@kernel("numpy", "matmul")
def matmul(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """One large product by the threads of BLAS; a batch of them on ours; rows times one matrix as one."""
    if not has_numpy_dtypes(*ins):
        return None
    a, b = ins
    flip_a, flip_b = bool(attrs.get("transpose_a")), bool(attrs.get("transpose_b"))
    out = outs[0].shape
    if a.ndim > 2 and b.ndim == 2 and not flip_a:
        rows, k, n = prod(a.shape[:-1]), a.shape[-1], out[-1]

        def run_single_product(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            right = inputs[1].T if flip_b else inputs[1]
            np.matmul(inputs[0].reshape(rows, k), right, out=outputs[0].reshape(rows, n))

        return run_single_product

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        left, right = inputs
        if flip_a:
            left = left.swapaxes(-1, -2)
        if flip_b:
            right = right.swapaxes(-1, -2)
        np.matmul(left, right, out=outputs[0])

    if (
        len(a.shape) == len(b.shape) == 2
        and flip_b
        and not flip_a
        and out[0] <= _SMALL_M_MAX_ROWS
        and b.size >= _SMALL_M_MIN_SIZE
    ):
        return _make_small_m(a, b)
    count = prod(out[:-2])
    work = prod(out) * (a.shape[-2] if flip_a else a.shape[-1])
    if count < 2 or work < _MIN_PARALLEL_WORK:
        return run
    return _make_batched(ins, out, run, max(count * _MIN_PARALLEL_WORK // work, 1))


def _make_small_m(a: Spec, b: Spec) -> KernelFn:
    """A batch's gradient by the input of a large dense layer: b is read in memory order, up to twice as fast as
    its transpose."""

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        right, out = inputs[1], outputs[0]
        (left,) = scratch_arrays((a.shape[::-1], a.dtype), use="left")
        np.copyto(left, inputs[0].T)

        def work(start: int, stop: int) -> None:
            (product,) = scratch_arrays(((stop - start, a.shape[0]), a.dtype))
            np.matmul(right[start:stop], left, out=product)
            np.copyto(out[:, start:stop], product.T)

        parallel_for(work, b.shape[0], _ROWS_PER_TASK, blas=True)

    return run


def _make_batched(ins: tuple[Spec, ...], out: tuple[int, ...], run: KernelFn, grain: int) -> KernelFn:
    """Products of a batch on several threads; the batch is one axis where no input is broadcast along it."""
    is_one_batch = all(s.shape[:-2] == out[:-2] for s in ins)
    n = prod(out[:-2]) if is_one_batch else out[0]
    if not is_one_batch:
        grain = max(grain * n // prod(out[:-2]), 1)
    is_split = [is_one_batch or (s.ndim == len(out) and s.shape[0] != 1) for s in ins]

    def run_split(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        arrays, target = list(inputs), outputs[0]
        if is_one_batch:
            arrays = [x.reshape(n, *x.shape[-2:]) for x in arrays]
            target = target.reshape(n, *target.shape[-2:])

        def work(start: int, stop: int) -> None:
            run([x[start:stop] if c else x for x, c in zip(arrays, is_split, strict=True)], [target[start:stop]])

        parallel_for(work, n, grain, blas=True)

    return run_split
